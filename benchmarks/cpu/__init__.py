"""How fast a vCPU of this machine is, against one of the reference machine."""
