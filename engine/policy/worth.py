"""What a draft is worth: the tokens it brings above what verifying them costs."""

from collections.abc import Sequence


def worth(survival: Sequence[float], price: float) -> float:
    """Return the gain of the best prefix of a draft, in tokens; 0 when none pays.

    Args:
        survival: Probability that each token and all before it are accepted; never rising.
        price: Survival at which a token pays for itself, 0 to 1.
    """
    gain = 0.0
    for probability in survival:
        if probability < price:
            break
        gain += probability - price
    return gain
