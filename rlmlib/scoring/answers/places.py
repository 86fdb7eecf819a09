"""States and countries, and the well-known cities of each, as answers write them: "Philadelphia, Pennsylvania"."""

from .restated import asked
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
_REGIONS = frozenset(tuple(folded(name)) for name in _NAMES.split(";"))

# Only cities whose bare name means the one here: no Portland, Springfield, Birmingham or Cambridge.
_CITIES = """
Arizona: Phoenix, Tucson; Arkansas: Little Rock; California: Los Angeles, San Francisco, San Diego, Sacramento, Oakland; Colorado: Denver;
Connecticut: Hartford, New Haven; Florida: Miami, Tampa, Orlando, Tallahassee; Georgia: Atlanta, Savannah; Hawaii: Honolulu; Idaho: Boise;
Illinois: Chicago; Indiana: Indianapolis; Iowa: Des Moines; Kentucky: Louisville; Louisiana: New Orleans, Baton Rouge;
Maryland: Baltimore, Annapolis; Massachusetts: Boston; Michigan: Detroit, Ann Arbor; Minnesota: Minneapolis; Missouri: St. Louis;
Nebraska: Omaha; Nevada: Las Vegas, Reno; New Mexico: Albuquerque, Santa Fe; New York: New York City, Buffalo, Albany;
North Carolina: Raleigh, Charlotte; Ohio: Cleveland, Cincinnati, Columbus; Oklahoma: Oklahoma City, Tulsa;
Pennsylvania: Philadelphia, Pittsburgh; Tennessee: Nashville, Memphis, Knoxville; Texas: Houston, Dallas, Austin, San Antonio, El Paso;
Utah: Salt Lake City; Washington: Seattle, Tacoma; Wisconsin: Milwaukee; Alberta: Calgary, Edmonton; Manitoba: Winnipeg;
Nova Scotia: Halifax; Ontario: Toronto, Ottawa; Quebec: Montreal; New South Wales: Sydney; Queensland: Brisbane; Tasmania: Hobart;
South Australia: Adelaide; Western Australia: Perth; England: London, Manchester, Liverpool, Leeds, Bristol, Sheffield;
Scotland: Edinburgh, Glasgow, Aberdeen; Wales: Cardiff, Swansea; Northern Ireland: Belfast; Algeria: Algiers; Argentina: Buenos Aires;
Australia: Sydney, Melbourne, Brisbane, Perth, Adelaide, Canberra; Austria: Vienna, Salzburg, Graz; Azerbaijan: Baku; Bangladesh: Dhaka;
Belarus: Minsk; Belgium: Brussels, Antwerp, Ghent; Bolivia: La Paz; Brazil: Brasilia, Rio de Janeiro, Sao Paulo; Bulgaria: Sofia;
Cambodia: Phnom Penh; Canada: Ottawa, Toronto, Montreal, Calgary; Chile: Santiago; China: Beijing, Shanghai, Guangzhou; Colombia: Bogota;
Croatia: Zagreb; Cuba: Havana; Czech Republic: Prague, Brno; Czechia: Prague, Brno; Denmark: Copenhagen, Aarhus; Ecuador: Quito;
Egypt: Cairo; Estonia: Tallinn; Ethiopia: Addis Ababa; Finland: Helsinki, Tampere; France: Paris, Lyon, Marseille, Bordeaux, Nice;
Germany: Berlin, Munich, Hamburg, Cologne, Frankfurt, Leipzig; Ghana: Accra; Greece: Athens, Thessaloniki; Hungary: Budapest;
Iceland: Reykjavik; India: New Delhi, Delhi, Mumbai, Kolkata, Chennai; Indonesia: Jakarta; Iran: Tehran; Iraq: Baghdad;
Ireland: Dublin, Cork, Galway; Israel: Tel Aviv, Jerusalem; Italy: Rome, Milan, Naples, Turin, Florence, Venice;
Japan: Tokyo, Osaka, Kyoto; Kenya: Nairobi; Latvia: Riga; Lebanon: Beirut; Lithuania: Vilnius; Malaysia: Kuala Lumpur;
Mexico: Mexico City; Morocco: Rabat, Casablanca; Nepal: Kathmandu; Netherlands: Amsterdam, Rotterdam, The Hague; New Zealand: Auckland;
Nigeria: Lagos, Abuja; Norway: Oslo, Bergen; Pakistan: Karachi, Lahore, Islamabad; Peru: Lima; Philippines: Manila; Poland: Warsaw, Krakow;
Portugal: Lisbon, Porto; Romania: Bucharest; Russia: Moscow; Saudi Arabia: Riyadh; Serbia: Belgrade; South Africa: Johannesburg, Cape Town;
South Korea: Seoul; Spain: Madrid, Barcelona, Seville; Sweden: Stockholm, Gothenburg; Switzerland: Zurich, Geneva, Bern; Syria: Damascus;
Thailand: Bangkok; Turkey: Istanbul, Ankara; Ukraine: Kyiv, Odesa; United Kingdom: London, Edinburgh, Glasgow, Cardiff, Belfast;
UK: London, Edinburgh, Glasgow, Cardiff, Belfast; Venezuela: Caracas; Vietnam: Hanoi; Zimbabwe: Harare
"""
_IN_REGION = frozenset(
    (tuple(folded(city)), tuple(folded(region)))
    for region, _, cities in (line.partition(":") for line in _CITIES.split(";"))
    for city in cities.split(",")
)
_ASKS_FOR_PLACE = frozenset("city capital town place municipality".split())


def is_region(text: str) -> bool:
    """Whether a text names a state or a country."""
    return tuple(folded(text)) in _REGIONS


def is_qualified(answer: str, gold: str, question: str) -> bool:
    """Whether a question for a city has the gold one as its answer, with the state or country in which it is known to lie behind."""
    head, _, region = answer.partition(",")
    city = tuple(folded(head))
    return city == tuple(folded(gold)) and (city, tuple(folded(region))) in _IN_REGION and _asks_for_place(question)


def _asks_for_place(question: str) -> bool:
    return any(each.asking == "where" or _ASKS_FOR_PLACE & set(each.noun) for each in asked(question))
