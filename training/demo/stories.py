"""Short stories for the bundled corpus: a plot is a list of beats, a beat a handful of sentence
forms."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from training.demo import lexicon
from training.demo.lexicon import sentence

_OPENINGS = (
    "[once upon a time|one day|long ago|many years ago], there [was|lived] a [{trait}|young|little] {who} [called|named] {name} [in|near] a [small|quiet|sunny|distant] {place}.",
    "{name} was a {trait} {who} who lived [near|by|close to] the {place}.",
    "in a [small|quiet|green|forgotten] {place}, there [was|lived] a {trait} {who} named {name}.",
    "[every|each] [morning|evening], {name} the {who} [walked|wandered|ran] [through|across|around] the {place}.",
)
_HABITS = (
    "{Sub} [loved|liked] to [sing|read|dance|draw|climb trees|watch the clouds] [in the morning|after dinner|all day long|when it rained].",
    "[everyone|all the neighbors] [knew|said] that {sub} was [very|rather|a little] {trait}.",
    "{Sub} [had|owned|kept] a [small|shiny|old|beautiful] {thing} that [shone|gleamed|sparkled] [in the sun|at night|like a star].",
    "{Pos} [favorite|best] thing was a [small|shiny|old|beautiful] {thing} [from|given by] {pos} [grandmother|grandfather|uncle].",
)
_PROMPTS = (
    "[tell me|write|please write] a [short |little |]story about {name} and a {thing}.",
    "[tell|write] a story about a {trait} {who} [called|named] {name}.",
    "[can you tell|could you write] a story about {name}, a {friend} and a {thing}?",
    "a story about {name} in a {place}, please.",
    "continue [the|this] story: {opening}",
)
_LOST = (
    (
        "[one day|one morning|then one evening|that afternoon], the {thing} was [gone|lost|missing].",
        "but [one day|one windy morning|one night], {sub} [lost|could not find] the {thing}.",
    ),
    (
        "{Sub} [looked|searched] {hiding}, but [there was nothing|it was not there|found only leaves].",
        "{name} [felt|was] [sad|worried|upset] and [began|started] to [search|look] [everywhere|for it].",
    ),
    (
        'a {friend} [came by|passed by|heard {obj}] and [asked|said], "[what is wrong|why are you sad|can I help you]?"',
        "[soon|then|after a while], {sub} met a [friendly|wise|sleepy|tiny] {friend} who [offered|wanted] to help.",
    ),
    (
        '"[I lost|I cannot find] my {thing}," [said|answered|cried] {name}.',
        "{name} [told|explained to] the {friend} [everything|what had happened|about the {thing}].",
    ),
    (
        "[together|side by side], they [walked|went|hurried] [to the {place}|down the path|along the river] and [looked|searched] {hiding2}.",
        "the {friend} had [a good idea|an idea]: they should look {hiding2}.",
    ),
    (
        "[there it was|and there it lay], [covered in leaves|wet with rain|safe and dry|shining softly]!",
        "{hiding2}, they [found|saw|discovered] the {thing}, [covered in leaves|wet with rain|safe and dry].",
    ),
)
_STORM = (
    (
        "[one night|that evening|one autumn day], a [great|terrible|sudden|loud] storm [came|arrived|rolled in].",
        "then [dark clouds|heavy clouds] [gathered|appeared] [over|above] the {place}, and it [began|started] to rain.",
    ),
    (
        "the wind [blew|howled] [all night|for hours] and [broke|shook|bent] the [old|tall|biggest] tree.",
        "the water [rose|climbed] [higher and higher|quickly|to the door].",
    ),
    (
        "{name} [heard|saw] a [small|scared|lonely] {friend} [crying|calling for help|stuck] {hiding}.",
        "{hiding}, a [small|scared|lonely] {friend} was [crying|waiting|calling for help].",
    ),
    (
        "[without waiting|at once|quickly], {sub} took the {thing} and [ran|went] [outside|into the rain].",
        "{Sub} was [afraid|scared], but {sub} [took|grabbed] the {thing} and [ran|went] [outside|into the rain].",
    ),
    (
        "{name} [led|carried|brought] the {friend} [home|to a warm room|to a safe place].",
        "with the {thing}, {name} [showed|found] the way [home|to a safe place].",
    ),
    (
        "they [shared|ate|had] {food} and [waited|talked|told stories] until the [sun came up|rain stopped|storm was over].",
        "[inside|at home], they [ate|shared] {food} [by the fire|near the window] until the [rain stopped|sun came up].",
    ),
)
_STRANGER = (
    (
        "[one day|one morning|one winter day], a {friend} [came|moved] to the {place}.",
        "then a [strange|quiet|new] {friend} [arrived|appeared] [at the door|on the road|in the {place}].",
    ),
    (
        "[nobody|no one] [wanted|dared] to [talk|speak] to the {friend}.",
        "the others [laughed at|were afraid of|did not trust] the {friend}.",
    ),
    (
        "but {name} [smiled|waved] and [offered|gave] it [some |a bit of |]{food}.",
        "only {name} [went|walked] over and [said hello|asked its name|sat down].",
    ),
    (
        "the {friend} [was|felt] so [happy|glad|surprised] that it [began to sing|danced|told {obj} a secret].",
        '"[thank you|you are very kind]," said the {friend}, "[nobody|no one] has been so [kind|nice] to me."',
    ),
    (
        "in return, the {friend} [gave|showed] {obj} a {thing2} that was hidden {hiding}.",
        "the {friend} [led|took] {name} to a place {hiding}, where a {thing2} [lay|was hidden].",
    ),
    (
        "[from then on|after that day], they [played|worked|walked] together [every day|each morning|in the {place}].",
        "the two [became|were soon] [best|close|good] friends and [shared|kept] the {thing2}.",
    ),
)
_CONTEST = (
    (
        "[every year|each spring|in summer], there was a [big|great|famous] [race|contest|fair] in the {place}.",
        "[one day|that week], the {place} [held|had] a [big|great] [race|contest].",
    ),
    (
        "the [winner|first one] would [get|win|receive] a [wonderful|shiny|new] {thing2}.",
        "{name} [wanted|hoped] to win the {thing2} [more than anything|very much].",
    ),
    (
        'a [proud|fast|loud] {friend} [laughed|said], "you will never [win|beat me]!"',
        "the {friend} was [faster|stronger|bigger], and [everyone|all of them] [knew it|cheered].",
    ),
    (
        "[halfway|near the end|after a while], the {friend} [fell|slipped|got stuck] {hiding}.",
        "but [suddenly|then] the {friend} [fell|slipped] and [hurt its leg|could not go on].",
    ),
    (
        "{name} [stopped|turned back] and [helped|lifted] the {friend} [up|to its feet].",
        "{name} could have won, but {sub} [stopped|turned back] to help.",
    ),
    (
        "they [crossed|reached] the [line|finish] together, and [everyone|the whole {place}] [cheered|clapped].",
        "[in the end|at last], both [got|shared] the [prize|{thing2}], and [nobody|no one] was [angry|sad].",
    ),
)
_BUILDING = (
    (
        "[one day|one spring|that year], {name} [decided|wanted] to build a [boat|house|bridge|tower] [alone|for {pos} friends|near the {place}].",
        "{name} had a [big|secret|wonderful] [plan|dream]: to build a [boat|house|bridge|tower].",
    ),
    (
        "{sub} [collected|gathered|carried] [wood|stones|ropes and nails] [all day|for a week|from morning to night].",
        "[first|at first], the work was [hard|slow|easy], and {pos} hands [hurt|were tired].",
    ),
    (
        'a {friend} [watched|looked at] {obj} and [shook its head|said, "that will never work"|laughed].',
        "[then|one night], the [wind|rain] [broke|ruined] [everything|half of it].",
    ),
    (
        "{name} [did not give up|tried again|started again] and [asked|called] [{pos} friends|the {friend}] for help.",
        '"[let us try again|we can do it together|do not give up]," said the {friend}.',
    ),
    (
        "[together|day after day], they [worked|built|hammered] and [sang|laughed|told jokes].",
        "[everyone|the whole {place}] [came|helped], and the work [went fast|was fun].",
    ),
    (
        "[at last|finally|after ten days], it was [finished|done|ready], and they hung the {thing} [on it|above the door].",
        "[when it was done|at last], they [ate|shared] {food} and [looked|smiled] at what they had made.",
    ),
)
_ENDINGS = (
    "{name} [smiled|laughed|was very happy] and [went home|fell asleep|thanked the {friend}].",
    "[that night|that evening], {name} [learned|understood] that [a friend is worth more than gold|it is good to share|being kind is never a waste|nothing is lost when friends help].",
    "and they [lived happily|stayed friends] [ever after|for many years].",
    "[since then|from that day on], {name} [never|always] [forgot|remembered] [the {friend}|that day].",
)
_PLOTS = (_LOST, _STORM, _STRANGER, _CONTEST, _BUILDING)


def story(rng: random.Random) -> tuple[str, str]:
    """Return a request and the story that answers it."""
    slots = _cast(rng)
    opening = sentence(rng, _OPENINGS, slots)
    habits = rng.sample(_HABITS, rng.choice((0, 1, 1, 2)))
    parts = [sentence(rng, (form,), slots) for form in habits]
    parts += [sentence(rng, beat, slots) for beat in (*rng.choice(_PLOTS), _ENDINGS)]
    request = sentence(rng, _PROMPTS, slots | {"opening": opening})
    return request, " ".join(parts if opening in request else [opening, *parts])


def _cast(rng: random.Random) -> dict[str, str]:
    gender = rng.choice(("she", "he"))
    pronouns = lexicon.PRONOUNS[gender]
    hero_is_child = rng.random() < 0.5
    friend, other = rng.sample(lexicon.ANIMALS, 2)
    thing, thing2 = rng.sample(lexicon.TREASURES, 2)
    hiding, hiding2 = rng.sample(lexicon.HIDING_LOCATIONS, 2)
    return {
        "name": rng.choice(lexicon.NAMES[gender]),
        "who": pronouns["child"] if hero_is_child else other,
        "trait": rng.choice(lexicon.TRAITS),
        "place": rng.choice(lexicon.LOCATIONS),
        "food": rng.choice(lexicon.FOODS),
        "friend": friend,
        "thing": thing,
        "thing2": thing2,
        "hiding": hiding,
        "hiding2": hiding2,
        **pronouns,
        "Sub": pronouns["sub"].capitalize(),
        "Pos": pronouns["pos"].capitalize(),
    }


def passages() -> str:
    """Return stories for long prompts, a line each."""
    rng, lines = random.Random(1), list[str]()
    while sum(map(len, lines)) < 96_000:
        lines.append(story(rng)[1])
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(passages(), encoding="utf-8")
