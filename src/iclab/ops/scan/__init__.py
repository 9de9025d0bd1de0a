"""The selective scan of Mamba: reference, PyTorch loop, C core, Triton, and which of them is called."""
