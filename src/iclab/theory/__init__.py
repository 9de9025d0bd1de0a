"""Exact theory, float64, no sampling: Hermite expansions, exponents, moments of gated states, rates."""

from iclab.links import HermiteSeries
from iclab.theory.describe import describe_link
from iclab.theory.describe_text import format_description
from iclab.theory.expansion import Expansion, hermite_expansion, polynomial_degree
from iclab.theory.exponents import TOLERANCE, Exponent, e_p, gated_exponent, gated_label, information_exponent
from iclab.theory.first_step import first_step
from iclab.theory.gate_moments import GateMoments, TokenMoments
from iclab.theory.generative import generative_exponent, label_map_strengths
from iclab.theory.optimal_gate import OptimalGate, optimal_gate, optimal_gate_curve
from iclab.theory.rates import RATES, Rate, rates
from iclab.theory.tails import tail_ratio
from iclab.theory.weights import GATES, LabelWeight

__all__ = [
    "GATES",
    "RATES",
    "TOLERANCE",
    "Expansion",
    "Exponent",
    "GateMoments",
    "HermiteSeries",
    "LabelWeight",
    "OptimalGate",
    "Rate",
    "TokenMoments",
    "describe_link",
    "e_p",
    "first_step",
    "format_description",
    "gated_exponent",
    "gated_label",
    "generative_exponent",
    "hermite_expansion",
    "information_exponent",
    "label_map_strengths",
    "optimal_gate",
    "optimal_gate_curve",
    "polynomial_degree",
    "rates",
    "tail_ratio",
]
