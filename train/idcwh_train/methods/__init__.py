"""The losses, one file a method; `base.py` says what a method is.

To add one: a file here with a class that sets `name`, and a line in MODULES. The command line reads this file before
torch is loaded, so it imports nothing.
"""

MODULES = {"idcwh": "idcwh", "idcwh-single": "idcwh"}
"""Name of a method, as `--method` and model.pt call it -> module."""

L2_REDUCTIONS = ("sum/Z", "sum", "sum/ZC", "sum/n")
"""What the sum over the Z x C terms of IDCWH's L2 is divided by; "sum" is eq. 11 as it stands, "sum/ZC" the mean."""
REDUCTIONS = ("mean", "sum")
"""Of terms that are sums over the images of a batch."""
