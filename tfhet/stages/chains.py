"""Named chains of stages, as text for `tfhet.stages.parse`."""

_IMAGENET = "normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))"
"""Mean and standard deviation of ImageNet's training images."""

CHAINS = {
    # The augmentation of AWS's heterogeneous cluster example (TensorFlow, CIFAR-10), in its order.
    "aws-cifar": "dilate(3); gaussian_blur(11, 0.8); rescale(1/255);"
    " random_flip(horizontal=True); random_rotation(0.1); random_zoom(0.1)",
    # Mild enough that a small network still learns handwritten digits, which a flip or a large angle would confuse.
    "digits": "random_rotation(0.02); random_zoom(0.05); rescale()",
    "none": "rescale()",
    # From image files to the input of networks for ImageNet, in training and in evaluation.
    "imagenet-train": f"decode(); random_resized_crop(224, 224); random_flip(); {_IMAGENET}",
    "imagenet-jitter": "decode(); random_resized_crop(224, 224); random_flip(); color_jitter(0.4, 0.4, 0.4);"
    f" {_IMAGENET}",
    "imagenet-eval": f"decode(); resized_center_crop(224, 224, 256); {_IMAGENET}",
    "randaugment-224": f"decode(); random_resized_crop(224, 224); random_flip(); randaugment(2, 9); {_IMAGENET}",
}
