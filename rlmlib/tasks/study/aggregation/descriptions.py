"""What the records of known sets are, and what their labels mean in words that do not name them."""

KINDS = {
    "trec": "questions",
    "ag_news": "news items",
    "banking77": "messages to a bank",
    "clinc150": "requests to an assistant",
    "sms_spam": "text messages",
    "mr": "sentences from film reviews",
    "sst2": "sentences from film reviews",
    "subj": "sentences about films",
    "cr": "sentences on products",
    "mpqa": "phrases from the news",
    "emotion": "tweets",
    "reuters_r8": "news wire stories",
    "newsgroups20": "newsgroup posts",
}

_FILM_REVIEWS = {
    "negative": "sentences that speak badly of a film",
    "positive": "sentences that speak well of a film",
}

DESCRIPTIONS = {
    "trec": {
        "abbreviation": "questions that ask what letters stand for or how something is abbreviated",
        "description": "questions that ask for a meaning, a reason, a manner or an account of something",
        "entity": "questions that ask for a thing, such as an animal, a product, a colour or a work",
        "number": "questions that ask for a count, a date, a price or another figure",
        "person": "questions that ask who somebody is, or for a group of people",
        "place": "questions that ask where something is, or for a city, a country or a mountain",
    },
    "ag_news": {
        "Business": "news items about companies, markets and the economy",
        "Sci/Tech": "news items about computing, gadgets, research or space",
        "Sports": "news items about matches, athletes and teams",
        "World": "news items about politics, conflicts and disasters around the world",
    },
    "clinc150": {  # the others speak for themselves
        "maybe": "requests to an assistant that neither agree nor refuse",
        "no": "requests to an assistant that say no",
        "out_of_scope": "requests to an assistant that fit none of its skills",
        "yes": "requests to an assistant that say yes",
    },
    "sms_spam": {
        "ham": "messages that people write to those they know",
        "spam": "messages that advertise, offer prizes or try to sell something",
    },
    "mr": _FILM_REVIEWS,
    "sst2": _FILM_REVIEWS,
    "subj": {
        "objective": "sentences that tell what happens in the story of a film",
        "subjective": "sentences that give somebody's opinion of a film",
    },
    "cr": {
        "negative": "sentences that find fault with a product",
        "positive": "sentences that praise a product",
    },
    "mpqa": {
        "negative": "phrases with an unfavourable ring",
        "positive": "phrases with a favourable ring",
    },
    "emotion": {
        "anger": "tweets whose author is above all furious or annoyed",
        "joy": "tweets whose author is above all happy or amused",
        "optimism": "tweets whose author is above all hopeful or encouraging",
        "sadness": "tweets whose author is above all unhappy or downcast",
    },
    "reuters_r8": {
        "acquisitions": "stories about one company buying another or shares in it",
        "crude oil": "stories about petroleum, its output and its price",
        "earnings": "stories about the profits, losses or dividends of a company",
        "foreign exchange": "stories about currencies and the money supply of central banks",
        "grain": "stories about wheat, maize and other cereals",
        "interest rates": "stories about what borrowing costs, as set by banks and central banks",
        "shipping": "stories about vessels, ports and cargo lines",
        "trade": "stories about exports, imports and tariffs between countries",
    },
    "newsgroups20": {
        "alt.atheism": "posts about not believing in gods",
        "comp.graphics": "posts about images and drawing by computer",
        "comp.os.ms-windows.misc": "posts about using Microsoft Windows",
        "comp.sys.ibm.pc.hardware": "posts about the parts of PCs",
        "comp.sys.mac.hardware": "posts about the parts of Macintosh computers",
        "comp.windows.x": "posts about the X window system of Unix",
        "misc.forsale": "posts that offer things to buyers",
        "rec.autos": "posts about cars",
        "rec.motorcycles": "posts about motorbikes",
        "rec.sport.baseball": "posts about baseball",
        "rec.sport.hockey": "posts about ice hockey",
        "sci.crypt": "posts about encryption and privacy",
        "sci.electronics": "posts about circuits and components",
        "sci.med": "posts about illness and medicine",
        "sci.space": "posts about space flight and astronomy",
        "soc.religion.christian": "posts by Christians about their faith",
        "talk.politics.guns": "posts about firearms and the law",
        "talk.politics.mideast": "posts about the politics of the Middle East",
        "talk.politics.misc": "posts about other politics",
        "talk.religion.misc": "posts about other religious matters",
    },
}


def kind(known: str) -> str:
    """What the records of a set are, in the plural."""
    return KINDS.get(known, "texts")


def description(known: str, label: str) -> str:
    """What the records of a label are, in the plural: by hand for known sets, else by the words of the label."""
    by_hand = DESCRIPTIONS.get(known, {}).get(label)
    return by_hand or f'{kind(known)} about "{label.replace("_", " ").replace("-", " ")}"'
