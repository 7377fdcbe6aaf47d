"""Adapters of a host, and the variables by which they are used."""

from tfhet.planes.ray.start import devices, efa_variables


def device(folder, name: str, driver: str) -> None:
    (folder / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (folder / "class" / name / "device").mkdir(parents=True)
    (folder / "class" / name / "device" / "driver").symlink_to(folder / "drivers" / driver)


def test_only_adapters_of_the_driver_efa_count(tmp_path):
    device(tmp_path, "rdmap16s27", "efa")
    device(tmp_path, "mlx5_0", "mlx5_core")
    assert devices(tmp_path / "class") == ("rdmap16s27",)
    assert devices(tmp_path / "none") == ()


def test_what_the_user_has_set_wins(tmp_path):
    assert efa_variables("eth0", {"GLOO_SOCKET_IFNAME": "eth1"}, tmp_path) == {"NCCL_SOCKET_IFNAME": "eth0"}
    device(tmp_path, "rdmap16s27", "efa")
    found = efa_variables("eth0", {"FI_PROVIDER": "tcp"}, tmp_path / "class")
    assert "FI_PROVIDER" not in found and found["FI_EFA_FORK_SAFE"] == "1"
