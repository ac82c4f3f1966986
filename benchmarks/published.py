"""Results that others publish on the sets of the leaderboard, with their sources."""

from __future__ import annotations

from typing import NamedTuple

ESASREC = "[eSASRec](https://arxiv.org/abs/2508.06450)"
SPLIT = "[Time to Split](https://arxiv.org/abs/2507.16289)"
GSASREC = "[gSASRec](https://arxiv.org/abs/2308.07192)"
REVISITED = "[Rendle et al.](https://arxiv.org/abs/2110.14037)"
UNCHECKED = "not checked whether it is trained on the validation event"
ALL_FILMS = "all 3,706 films; our file leaves out 290 with fewer than five ratings"


class Published(NamedTuple):
    """A row of somebody else's table.

    values: of the metrics of the set, in its order. unlike: what differs from our split or
    training; empty where nothing does: same events learned, shown and asked.
    """

    set: str
    method: str
    values: tuple[float, float]
    source: str
    unlike: str = ""


ROWS = (
    Published("amazon-beauty", "SASRec with sampled softmax", (0.0921, 0.0531), ESASREC),
    Published("amazon-beauty", "eSASRec", (0.0928, 0.0523), ESASREC),
    Published("amazon-beauty", "HSTU", (0.0788, 0.0439), ESASREC),
    Published("amazon-beauty", "FuXi-a", (0.0809, 0.0451), ESASREC),
    Published("amazon-sports", "SASRec with sampled softmax", (0.0569, 0.0314), ESASREC),
    Published("amazon-sports", "eSASRec", (0.0560, 0.0323), ESASREC),
    Published("amazon-sports", "HSTU", (0.0437, 0.0243), ESASREC),
    Published("amazon-sports", "FuXi-a", (0.0437, 0.0244), ESASREC),
    Published("ml-1m-sequences", "SASRec with sampled softmax", (0.2929, 0.1684), ESASREC,
              ALL_FILMS),
    Published("ml-1m-sequences", "eSASRec", (0.3133, 0.1772), ESASREC, ALL_FILMS),
    Published("ml-1m-sequences", "HSTU", (0.3037, 0.1719), ESASREC, ALL_FILMS),
    Published("ml-1m-sequences", "FuXi-a", (0.3164, 0.1813), ESASREC, ALL_FILMS),
    Published("ml-1m-sequences", "gSASRec", (0.300, 0.173), GSASREC, UNCHECKED),
    Published("ml-1m-sequences", "BERT4Rec", (0.284, 0.154), GSASREC, UNCHECKED),
    Published("ml-1m-sequences", "SASRec with full softmax", (0.315, 0.182),
              "[Klenitskiy and Vasilev](https://arxiv.org/abs/2309.07602)", UNCHECKED),
    Published("ml-1m-sequences", "HSTU-large", (0.329, 0.189),
              "[HSTU](https://arxiv.org/abs/2402.17152)",
              f"{UNCHECKED}; events of the same second in another order"),
    Published("yelp2018", "LightGCN", (0.0649, 0.0530),
              "[LightGCN](https://arxiv.org/abs/2002.02126)"),
    Published("yelp2018", "EASE", (0.0657, 0.0552),
              "[BARS](https://openbenchmark.github.io/BARS/)"),
    Published("yelp2018", "UltraGCN", (0.0683, 0.0561),
              "[UltraGCN](https://arxiv.org/abs/2110.15114)"),
    Published("yelp2018", "MF with a contrastive loss", (0.0698, 0.0572),
              "[SimpleX](https://arxiv.org/abs/2109.12613)"),
    Published("yelp2018", "SimpleX", (0.0701, 0.0575),
              "[SimpleX](https://arxiv.org/abs/2109.12613)"),
    Published("yelp2018", "SimGCL", (0.0721, 0.0601),
              "[SimGCL](https://arxiv.org/abs/2112.08679)"),
    Published("yelp2018", "XSimGCL", (0.0723, 0.0604),
              "[XSimGCL](https://arxiv.org/abs/2209.02544)"),
    Published("yelp2018", "GR-MC", (0.0731, 0.0627),
              "[GR-MC, table 3](https://www.nature.com/articles/s41598-025-17925-y)",
              "its split was not checked"),
    Published("amazon-cds", "UltraGCN", (0.1622, 0.1043),
              "[UltraGCN](https://arxiv.org/abs/2110.15114)"),
    Published("ml-1m-ncf", "popularity", (0.4531, 0.2542), REVISITED),
    Published("ml-1m-ncf", "ItemKNN", (0.6596, 0.3900), REVISITED),
    Published("ml-1m-ncf", "NeuMF", (0.6725, 0.4011), REVISITED),
    Published("ml-1m-ncf", "PureSVD", (0.6896, 0.4294), REVISITED),
    Published("ml-1m-ncf", "iALS, 192 factors", (0.7310, 0.4521), REVISITED),
    Published("ml-1m-clock", "SASRec", (0.1596, 0.0948), SPLIT,
              "same users and test events; it may not be trained on the tenth of the events before "
              "the cut, which its epoch was chosen by"),
    Published("ml-100k", "BPR of Cornac", (0.213, 0.442),
              "[Recommenders](https://github.com/recommenders-team/recommenders)",
              "another random quarter"),
)  # fmt: skip
