"""C++ kernels for the CPU: their sources, the loader, and the switch that turns them on and off."""
