"""Common English words that carry no topic."""

_WORDS = """
about above after again against all almost also although always am among an and another any anyone
anything are as at away back be because been before being below between both but by came can cannot
come could did do does doing done down during each either else ever every everyone everything few
first for from further get gets getting give given go goes going got had has have having he her
here hers herself him himself his how however if in into is it its itself just know last least less
let like ll made make makes many may me might mine more most much must my myself neither never no
nobody none nor not nothing now of off often on once one only onto or other others our ours
ourselves out over own per perhaps put quite rather re really said same saw say says see seem seems
seen several shall shan she should since so some someone something sometimes still such take than
that the their theirs them themselves then there these they thing things think this those though
through thus to together too toward towards two under until up upon us use used using ve very want
was way we well went were what whatever when where whether which while who whom whose why will with
within without won would yes yet you your yours yourself yourselves
"""
_NEGATED = "are could did do does had has have is must should was were would"

# "wasn" is left of "wasn't" when the apostrophe ends the word.
ENGLISH = frozenset(_WORDS.split()) | frozenset(f"{verb}n" for verb in _NEGATED.split())
