"""The public data sets that have a name: what they are, whose they are, what their bytes are."""

from __future__ import annotations

from dataclasses import dataclass

GROUPLENS = "https://files.grouplens.org/datasets/movielens"
NCF = "https://raw.githubusercontent.com/hexiangnan/neural_collaborative_filtering/master/Data"
LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"


@dataclass(frozen=True)
class File:
    """A file of a set; it may lie gzipped as NAME.gz. sha256: of its contents, not gzipped."""

    name: str
    sha256: str
    url: str | None = None
    needed: bool = True


@dataclass(frozen=True)
class PublicSet:
    """A public data set: what it is, under which terms, where from, and how it is read.

    train: the file to read, or "" for the whole folder; test: a given test part, if any.
    items: a file of item attributes.
    """

    name: str
    description: str
    terms: str
    origin: str
    files: tuple[File, ...]
    format: str
    train: str = ""
    test: str | None = None
    items: str | None = None


SETS = (
    PublicSet(
        "ml-100k",
        "MovieLens 100K: 100,000 ratings of movies, with user and item attributes",
        "no redistribution, no commercial use",
        "https://grouplens.org/datasets/movielens/100k/",
        (
            File(
                "u.data",
                "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
                f"{GROUPLENS}/ml-100k/u.data",
            ),
            File(
                "u.item",
                "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
                f"{GROUPLENS}/ml-100k/u.item",
            ),
            File(
                "u.user",
                "f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c",
                f"{GROUPLENS}/ml-100k/u.user",
            ),
        ),
        "movielens",
    ),
    PublicSet(
        "ml-1m",
        "MovieLens 1M: 1,000,209 ratings of movies, with user and item attributes",
        "no redistribution, no commercial use",
        "https://grouplens.org/datasets/movielens/1m/",
        (
            File(
                "ml-1m.zip",
                "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
                f"{GROUPLENS}/ml-1m.zip",
            ),
        ),
        "movielens",
        train="ml-1m.zip",
    ),
    PublicSet(
        "ml-1m-ncf",
        "MovieLens 1M, leave-one-out split of 'Neural Collaborative Filtering' with 99 negatives",
        "cite He et al. 2017",
        "https://github.com/hexiangnan/neural_collaborative_filtering",
        (
            File(
                "ml-1m.train.rating",
                "7fb2920a6977c7e6f16517e76ffabebca7b5558a8189436e2c37bbb824532cd7",
                f"{NCF}/ml-1m.train.rating",
            ),
            File(
                "ml-1m.test.rating",
                "231ae11eb060b643a8c58c063cd17ffc743b54f569afb073d1abb6cf126b88b5",
                f"{NCF}/ml-1m.test.rating",
            ),
            File(
                "ml-1m.test.negative",
                "127853228a76b7d21c0481e8ef8d00dd009cd5c88670dbdd9e9debfdb9f93de4",
                f"{NCF}/ml-1m.test.negative",
            ),
        ),
        "ncf",
        train="ml-1m.train.rating",
        test="ml-1m.test.rating",
    ),
    PublicSet(
        "frappe",
        "Frappe: 96,203 uses of apps in context (time, place, weather)",
        "no redistribution, no commercial use, cite arXiv:1505.03014",
        "https://www.baltrunas.info/context-aware/frappe",
        (
            File("frappe.csv", "409edc12f4e2153c5dd58ae171938735911d9b0f70961d5f1086b241656b2cb5"),
            File(
                "meta.csv",
                "de87f6b2e7cd0428f9179167e2e7826b5dd3bf490d5af680261b685763ac214f",
                needed=False,
            ),
        ),
        "frappe",
    ),
    PublicSet(
        "frappe-cfm",
        "Frappe as numbered features, in the split of CFM and ENSFM",
        "cite Xin et al. 2019",
        "https://github.com/chenchongthu/ENSFM",
        (
            File("train.csv", "b6d27eba5c0b9ca906af6df513304b798cfa245eb61f382d59d610b70ca6f20f"),
            File("test.csv", "2337f12a4037d05873978f982dca86dc9c6e8a8518928e1b0dc10bddde851702"),
        ),
        "cfm",
        train="train.csv",
        test="test.csv",
    ),
    PublicSet(
        "amazon-cdtf",
        "Amazon ratings in four domains (books, music, DVDs, videos) with shared users",
        "cite Hu et al. 2013",
        "the authors of 'Personalized recommendation via cross-domain triadic factorization'",
        (File("ratings.tsv", "40dc936fe2a26b1ac6731cf443ea08e2e4cb064a48d750087a881f5c331a5e8b"),),
        "delimited",
        train="ratings.tsv",
    ),
    PublicSet(
        "xing-2016",
        "XING RecSys Challenge 2016, a subset: users and jobs, with concepts of the jobs' titles",
        "challenge data, semi-synthetic by its owner's word",
        "the RecSys Challenge 2016",
        (
            File(
                "interactions.tsv",
                "d124530ce533d0774a3991978e57d2711df71673b50181a0fdf6b249b6916058",
            ),
            File(
                "item_concepts.tsv",
                "078d9a336bfb44831ec69a4ae3c7563c9e918a26976c634603d0f52e7bcf0bbe",
            ),
        ),
        "delimited",
        train="interactions.tsv",
        items="item_concepts.tsv",
    ),
    PublicSet(
        "yelp2018",
        "Yelp 2018 in the split of LightGCN",
        "cite He et al. 2020",
        "https://github.com/gusye1234/LightGCN-PyTorch",
        (
            File(
                "train.txt",
                "5588ebbcbf9ab10cdf7a70aa300f2ef781030daa2a94ef0685598ed051a398da",
                f"{LIGHTGCN}/yelp2018/train.txt",
            ),
            File(
                "test.txt",
                "9cd9b37926cd1447a06625ffa7914527573fb097c10cb0bbdb1d1b8ded3742fe",
                f"{LIGHTGCN}/yelp2018/test.txt",
            ),
        ),
        "lightgcn",
        train="train.txt",
        test="test.txt",
    ),
    PublicSet(
        "ml-1m-sequences",
        "MovieLens 1M as a sequence of films per user, as SASRec and its successors use it",
        "no redistribution, no commercial use; cite Kang and McAuley 2018",
        "https://github.com/FeiSun/BERT4Rec (as one line per user)",
        (
            File(
                "sequences.txt",
                "f939258a859d16e43055e80bf8f7d66aeae3805fa21cb1b999fbafa9c6c5694b",
            ),
        ),
        "sequences",
        train="sequences.txt",
    ),
    PublicSet(
        "amazon-beauty",
        "Amazon Beauty, 5-core, as a sequence of products per user, as S3-Rec uses it",
        "cite McAuley et al. 2015 and Zhou et al. 2020",
        "https://github.com/RUCAIBox/CIKM2020-S3Rec",
        (
            File(
                "sequences.txt",
                "226cce9c3105299ca0db9615d7d3fb32b3175e90da43100ae352599f0f0107b8",
            ),
        ),
        "sequences",
        train="sequences.txt",
    ),
    PublicSet(
        "depaul-movie",
        "DePaul movies: 5,043 ratings with time, location and companion",
        "cite Zheng et al. 2015",
        "https://github.com/irecsys/CARSKit (context-aware data sets)",
        (File("ratings.txt", "81c5f24813e822e542fe37c7b22ac12240c1758b82f70a431c2841c873ff2305"),),
        "delimited",
        train="ratings.txt",
    ),
)
