"""The verdict on a result: what was checked, how each check came out, and one sentence for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from decond.messages import card

__all__ = ["Check", "State", "Verdict"]


class State(StrEnum):
    """The outcome of a check; a verdict has the worst state of its checks."""

    GOOD = "good"
    OPEN = "open"
    DOUBT = "doubt"
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    """One question about a result, and the answer.

    Attributes
    ----------
    name : str
        What is checked, such as "error bars" or "calibration".
    state : State
        The outcome.
    finding : str
        What the verdict says about it; empty if it adds nothing.
    sentence : str
        The answer in full.
    numbers : mapping of str to float
        What was measured; empty if nothing could be.
    question : str
        The question that it answers.
    """

    name: str
    state: State
    finding: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    question: str = ""


@dataclass(frozen=True, repr=False)
class Verdict:
    """Checks of one result, and what they say together.

    Attributes
    ----------
    checks : sequence of Check
        Those that matter most first.
    otherwise : str
        What is said where no check has a finding.

    Examples
    --------
    >>> good = Check("deconditioning", State.GOOD, "it helped", "The resolution is 4.")
    >>> bad = Check("error bars", State.BAD, "the bars are too narrow", "80 % lie inside.")
    >>> Verdict([good]).state, Verdict([good]).sentence
    (<State.GOOD: 'good'>, 'It helped.')
    >>> Verdict([good, bad])
    Do not rely on this: the bars are too narrow.
    - deconditioning (good): The resolution is 4.
    - error bars (bad): 80 % lie inside.
    """

    checks: Sequence[Check]
    otherwise: str = "nothing was found wrong"

    @property
    def state(self) -> State:
        """The worst state of the checks; what is not known counts where a check has a finding about it."""
        grave = {check.state for check in self.checks} & {State.BAD, State.DOUBT}
        if grave:
            return State.BAD if State.BAD in grave else State.DOUBT
        return State.OPEN if self._findings(State.OPEN) else State.GOOD

    @property
    def sentence(self) -> str:
        """What is wrong if something is, else what is good and what is not known."""
        opening = {State.BAD: "Do not rely on this: ", State.DOUBT: "Use with caution: "}.get(self.state)
        if opening is not None:
            return f"{opening}{_joined(self._findings(State.BAD, State.DOUBT))}."
        good, unknown = _joined(self._findings(State.GOOD)) or self.otherwise, _joined(self._findings(State.OPEN))
        text = ", but ".join(filter(None, [good, unknown]))
        return f"{text[:1].upper()}{text[1:]}."

    def _findings(self, *states: State) -> list[str]:
        return [check.finding for check in self.checks if check.state in states and check.finding]

    def __getitem__(self, name: str) -> Check:
        """Return the check of that name."""
        return {check.name: check for check in self.checks}[name]

    @property
    def _lines(self) -> list[str]:
        return [f"{check.name} ({check.state}): {check.sentence}" for check in self.checks]

    def __repr__(self) -> str:
        """Show the sentence, and a line for each check."""
        return "\n".join([self.sentence, *(f"- {line}" for line in self._lines)])

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        return card("Verdict:", self.sentence, said=self._lines)


def _joined(findings: Sequence[str]) -> str:
    return f"{', '.join(findings[:-1])} and {findings[-1]}" if len(findings) > 1 else "".join(findings)
