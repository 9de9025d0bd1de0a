"""Link functions ``g`` of single-index targets ``y = g(<beta, x>)``, and Gaussian quadrature that is exact on them."""

from iclab.links.bisection import switching_points
from iclab.links.hermite import HermiteSeries, hermite_functions
from iclab.links.link import FunctionLink, Link
from iclab.links.named import LINK_NAMES, LinkLike, make_link
from iclab.links.quadrature import gaussian_expectations, gaussian_integrals

__all__ = [
    "LINK_NAMES",
    "FunctionLink",
    "HermiteSeries",
    "Link",
    "LinkLike",
    "gaussian_expectations",
    "gaussian_integrals",
    "hermite_functions",
    "make_link",
    "switching_points",
]
