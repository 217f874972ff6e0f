"""The course: questions now, lessons later. All of it is data; nothing here prints.

A quiz is one file `quizzes/NAME.toml`, and a lesson's quiz is the file of the lesson's name: adding a quiz is adding a
file. Every sentence stands in it in every language, under `en` and `zh`.

    number = 3                      # where it stands among the others
    title = { en = "...", zh = "..." }

    [[question]]
    id = "row_sum"                  # unique in all files: progress is kept under it, so it is never given another sense
    kind = "number"                 # choice, number or shape
    ask = { en = "... {n} ...", zh = "... {n} ..." }
    why = { en = "...", zh = "..." }    # one or two sentences, shown after a wrong answer
    draw = '''
    n = pick(3, 5, 7)
    '''
    run = '''
    weights = qkv.softmax(rng.standard_normal((n, n)))
    answer = weights.sum()
    '''
    decimals = 0                    # number: how exactly it is asked for

A choice has `right = {...}` and `wrong = [{...}, {...}, {...}]` in place of `decimals`; where they stand is shuffled.

`draw` and `run` are lines of Python that know `np`, `qkv`, `rng` (a generator that depends on the seed and the id only)
and `pick(...)` (one of its arguments). What `draw` binds fills the places in `ask`, what both bind those in `why`. The
answer of a number or a shape is the value that `run` gives to `answer`: it is computed, never written down. A shape is
a tuple. After a wrong answer the lines of `run` are shown, each with its value, so they are written to be read: a step
a line, by qkv's own functions. A choice may have `draw` and `run` as well; its lines are the evidence.

Progress is kept by id in the same file as the judge's (`qkv.judge.progress`).
"""
