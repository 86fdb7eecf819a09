"""States and countries that answers add behind a city: "Philadelphia, Pennsylvania"."""

from .text import folded

_NAMES = """
Alabama; Alaska; Arizona; Arkansas; California; Colorado; Connecticut; Delaware; Florida; Georgia; Hawaii; Idaho; Illinois;
Indiana; Iowa; Kansas; Kentucky; Louisiana; Maine; Maryland; Massachusetts; Michigan; Minnesota; Mississippi; Missouri;
Montana; Nebraska; Nevada; New Hampshire; New Jersey; New Mexico; New York; North Carolina; North Dakota; Ohio; Oklahoma;
Oregon; Pennsylvania; Rhode Island; South Carolina; South Dakota; Tennessee; Texas; Utah; Vermont; Virginia; Washington;
West Virginia; Wisconsin; Wyoming; Alberta; British Columbia; Manitoba; Nova Scotia; Ontario; Quebec; Saskatchewan;
New South Wales; Queensland; South Australia; Tasmania; Western Australia; England; Scotland; Wales; Northern Ireland;
Afghanistan; Albania; Algeria; Angola; Argentina; Armenia; Australia; Austria; Azerbaijan; Bahrain; Bangladesh; Belarus;
Belgium; Benin; Bolivia; Bosnia and Herzegovina; Botswana; Brazil; Bulgaria; Burkina Faso; Burundi; Cambodia; Cameroon;
Canada; Chad; Chile; China; Colombia; Costa Rica; Croatia; Cuba; Cyprus; Czech Republic; Czechia; Denmark;
Dominican Republic; Ecuador; Egypt; El Salvador; Eritrea; Estonia; Ethiopia; Fiji; Finland; France; Gabon; Germany; Ghana;
Greece; Guatemala; Guinea; Haiti; Honduras; Hungary; Iceland; India; Indonesia; Iran; Iraq; Ireland; Israel; Italy;
Ivory Coast; Jamaica; Japan; Jordan; Kazakhstan; Kenya; Kuwait; Kyrgyzstan; Laos; Latvia; Lebanon; Lesotho; Liberia; Libya;
Lithuania; Luxembourg; Madagascar; Malawi; Malaysia; Mali; Malta; Mauritania; Mauritius; Mexico; Moldova; Monaco; Mongolia;
Montenegro; Morocco; Mozambique; Myanmar; Namibia; Nepal; Netherlands; New Zealand; Nicaragua; Niger; Nigeria; North Korea;
North Macedonia; Norway; Oman; Pakistan; Panama; Papua New Guinea; Paraguay; Peru; Philippines; Poland; Portugal; Qatar;
Romania; Russia; Rwanda; Saudi Arabia; Senegal; Serbia; Sierra Leone; Singapore; Slovakia; Slovenia; Somalia; South Africa;
South Korea; Spain; Sri Lanka; Sudan; Suriname; Sweden; Switzerland; Syria; Taiwan; Tajikistan; Tanzania; Thailand; Togo;
Tunisia; Turkey; Uganda; Ukraine; United Arab Emirates; United Kingdom; UK; United States; USA; Uruguay; Uzbekistan;
Venezuela; Vietnam; Yemen; Zambia; Zimbabwe
"""
_PLACES = frozenset(tuple(folded(name)) for name in _NAMES.split(";"))


def is_region(text: str) -> bool:
    """Whether a text names a state or a country."""
    return tuple(folded(text)) in _PLACES


def is_qualified(answer: str, gold: str) -> bool:
    """Whether an answer is the gold place, itself no state or country, with a state or country behind a comma."""
    head, _, region = answer.partition(",")
    return folded(head) == folded(gold) != [] and is_region(region) and not is_region(gold)
