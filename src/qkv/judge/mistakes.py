"""What is said of the mistakes that occur in several tasks. A task's own mistakes are explained in its file.

Of each: what the code does (a sentence), what its output equals (a phrase that ends "your output equals ..."), and three
hints: a question, the place, the fix.
"""

from __future__ import annotations

from .task import Explained, Task, Text


def explained(task: Task, name: str) -> Explained:
    """What is said of a mistake in a task: the task's own words, or the shared ones."""
    own = next((m.explained for m in task.mistakes if m.id == name and m.explained), None)
    return own or SHARED[name]


def say(means: tuple[str, str], evidence: tuple[str, str], *hints: tuple[str, str]) -> Explained:
    """All sentences of a mistake as pairs, English and Chinese."""
    first, second, third = (Text(*hint) for hint in hints)
    return Explained(Text(*means), Text(*evidence), (first, second, third))


SHARED: dict[str, Explained] = {
    # scale
    "no_scale": say(
        ("The scores are not divided by √d_k.", "分数没有除以 √d_k。"),
        ("attention computed without dividing by √d_k", "不除以 √d_k 的注意力"),
        ("How large does q·k become when d_k grows?", "d_k 变大时，q·k 会变得多大？"),
        ("Look between Q Kᵀ and the softmax.", "看 Q Kᵀ 与 softmax 之间的那一步。"),
        ("Divide the scores: scores / np.sqrt(Q.shape[-1]).", "把分数除以根号：scores / np.sqrt(Q.shape[-1])。"),
    ),
    "scale_by_d": say(
        ("The scores are divided by d_k, not by its square root.", "分数除以了 d_k，而不是它的平方根。"),
        ("attention with scores divided by d_k", "分数除以 d_k 的注意力"),
        ("What is the standard deviation of a sum of d_k products?", "d_k 个乘积之和的标准差是多少？"),
        ("Look at the number that the scores are divided by.", "看分数除以的那个数。"),
        ("Take the root: np.sqrt(Q.shape[-1]).", "要开根号：np.sqrt(Q.shape[-1])。"),
    ),
    "scale_multiplied": say(
        ("The scores are multiplied by √d_k instead of divided by it.", "分数乘了 √d_k，而不是除以它。"),
        ("attention with scores multiplied by √d_k", "分数乘以 √d_k 的注意力"),
        ("Should scaling make the scores larger or smaller?", "缩放应该让分数变大还是变小？"),
        ("Look at the sign between the scores and √d_k.", "看分数与 √d_k 之间的运算符号。"),
        ("Divide: scores / np.sqrt(Q.shape[-1]).", "用除法：scores / np.sqrt(Q.shape[-1])。"),
    ),
    "scale_wrong_size": say(
        ("The scores are divided by the root of another size than d_k.", "分数除以的根号里不是 d_k，而是别的尺寸。"),
        ("attention scaled by the root of a wrong axis", "用错误的维的平方根来缩放的注意力"),
        ("Which axis of Q is summed over in Q Kᵀ?", "Q Kᵀ 沿 Q 的哪一维求和？"),
        ("Look at the index of the shape under the root.", "看根号里 shape 的下标。"),
        ("It is the last axis of Q: Q.shape[-1].", "应取 Q 的最后一维：Q.shape[-1]。"),
    ),
    "scale_by_d_model": say(
        ("The scores are divided by the root of the full width, not of one head's.", "分数除以的是整个宽度的平方根，而不是单个头的宽度。"),
        ("attention with scores divided by √d_model", "分数除以 √d_model 的注意力"),
        ("How many columns does one head have?", "一个头有几列？"),
        ("Look at the number under the root: is it taken before the heads are split?", "看根号里的数：它是不是在分头之前取的？"),
        ("Use the width of a head, d_model // n_heads.", "用单个头的宽度 d_model // n_heads。"),
    ),
    "scale_hard_coded": say(
        ("The scores are divided by a fixed number, whatever d_k is.", "无论 d_k 是多少，分数都除以同一个固定的数。"),
        ("attention with scores divided by one constant", "分数除以同一个常数的注意力"),
        ("Does your scale change when the input is wider?", "输入变宽时，你的缩放系数会变吗？"),
        ("Look for a number written into the code where the scores are scaled.", "在缩放分数的地方找写死的数字。"),
        ("Read it off the input: np.sqrt(Q.shape[-1]).", "从输入读取：np.sqrt(Q.shape[-1])。"),
    ),
    "scale_after_softmax": say(
        ("√d_k divides the weights, after the softmax.", "√d_k 除在了 softmax 之后的权重上。"),
        ("attention whose weights were divided by √d_k", "权重除以了 √d_k 的注意力"),
        ("What do your weights of one row sum to?", "你的一行权重加起来是多少？"),
        ("Look at the order of softmax and division.", "看 softmax 与除法的先后。"),
        ("Scale first: softmax(scores / np.sqrt(d_k)).", "先缩放：softmax(scores / np.sqrt(d_k))。"),
    ),
    # softmax
    "softmax_wrong_axis": say(
        ("The softmax runs along the wrong axis.", "softmax 沿错误的维计算。"),
        ("a softmax along another axis", "沿另一维做 softmax 的结果"),
        ("Which sums are 1: those of the rows or of the columns?", "哪些和等于 1：行的，还是列的？"),
        ("Look at axis= in the maximum and in the sum.", "看求最大值与求和时的 axis=。"),
        ("Each query shares out 1 over its keys: axis=-1, keepdims=True.", "每个查询把 1 分给各个键：axis=-1, keepdims=True。"),
    ),
    "softmax_no_max": say(
        ("exp is taken without subtracting the maximum, so it overflows.", "没有先减去最大值就取 exp，因此会溢出。"),
        ("a softmax without subtracting the maximum", "不减最大值的 softmax"),
        ("What is np.exp(1000)?", "np.exp(1000) 是多少？"),
        ("Look at what goes into exp.", "看传入 exp 的是什么。"),
        ("Subtract first: np.exp(x - x.max(axis=-1, keepdims=True)).", "先减最大值：np.exp(x - x.max(axis=-1, keepdims=True))。"),
    ),
    "softmax_wrong_shift": say(
        ("Something other than the maximum is subtracted before exp, so it can still overflow.", "取 exp 前减去的不是最大值，仍可能溢出。"),
        ("a softmax that subtracts the mean of a row", "减去每行均值的 softmax"),
        ("After your subtraction, how large can the largest number be?", "减完之后，最大的数还能有多大？"),
        ("Look at what is subtracted before exp.", "看 exp 之前减去的是什么。"),
        ("Subtract the maximum of the row: x.max(axis=-1, keepdims=True).", "减去每行的最大值：x.max(axis=-1, keepdims=True)。"),
    ),
    "softmax_global_max": say(
        ("One maximum of the whole array is subtracted, not that of each row.", "减去的是整个数组的最大值，而不是每行的最大值。"),
        ("a softmax that subtracts one maximum from all rows", "所有行都减同一个最大值的 softmax"),
        ("What is left of a row whose scores lie 2000 below another row's?", "如果一行的分数比另一行低 2000，减完还剩什么？"),
        ("Look at the axis of the maximum.", "看求最大值时的 axis。"),
        ("Take it row by row: x.max(axis=-1, keepdims=True).", "逐行取：x.max(axis=-1, keepdims=True)。"),
    ),
    "softmax_no_keepdims": say(
        ("The maximum or the sum loses its axis, so it is matched with the wrong rows.", "最大值或和丢了一维，因此对到了错误的行上。"),
        ("a softmax without keepdims=True", "缺少 keepdims=True 的 softmax"),
        ("What shape has x.sum(axis=-1), and how does it broadcast against x?", "x.sum(axis=-1) 是什么形状？它怎样与 x 广播？"),
        ("Look at max and sum.", "看 max 与 sum。"),
        ("Keep the axis: x.sum(axis=-1, keepdims=True).", "保留这一维：x.sum(axis=-1, keepdims=True)。"),
    ),
    "softmax_twice": say(
        ("The softmax is taken twice.", "做了两次 softmax。"),
        ("attention with a softmax of a softmax", "对 softmax 的结果再做一次 softmax 的注意力"),
        ("Is what you put into the last softmax scores, or weights already?", "传入最后一次 softmax 的是分数，还是已经是权重？"),
        ("Count the softmaxes, those inside functions too.", "数一数做了几次 softmax，函数里面的也算。"),
        ("One softmax, of the scaled and masked scores.", "只做一次，输入是缩放并加掩码后的分数。"),
    ),
    "integer_result": say(
        ("The result is put into an integer array, which cuts off the fractions.", "结果存进了整数数组，小数部分被截掉。"),
        ("the right result cut to whole numbers for integer input", "输入为整数时，正确结果取整后的值"),
        ("What dtype does your result have when the input is integer?", "输入是整数时，你的结果是什么 dtype？"),
        ("Look at zeros_like, empty_like and astype.", "看 zeros_like、empty_like 与 astype。"),
        ("Make it a float array: np.zeros(shape), without the input's dtype.", "用浮点数组：np.zeros(shape)，不要沿用输入的 dtype。"),
    ),
    "mutates_input": say(
        ("The caller's arrays are changed.", "调用者的数组被改动了。"),
        ("the right result, at the price of a changed input", "正确的结果，但输入被改动了"),
        ("Print the input after the call: is it what it was?", "调用之后打印输入：还和原来一样吗？"),
        ("Look for -=, /=, *= and assignments to slices of an argument.", "找对参数使用的 -=、/=、*= 和切片赋值。"),
        ("Make a new array: x = x - m instead of x -= m.", "生成新数组：写 x = x - m，而不是 x -= m。"),
    ),
    "returns_nothing": say(
        ("The function returns nothing.", "函数没有返回任何东西。"),
        ("None, which a function without return gives", "None，也就是没有 return 的函数给出的值"),
        ("What does your function hand back at its end?", "你的函数最后交回了什么？"),
        ("Is there a return on every way through it?", "每一条路径上都有 return 吗？"),
        ("End it with return and the result.", "在末尾写 return 和结果。"),
    ),
    "wrong_dtype": say(
        ("The result holds another kind of number than asked for.", "结果中数的种类与要求不同。"),
        ("the right result as another kind of number", "正确的结果，但数的种类不同"),
        ("What is the dtype of your result, and which one is asked for?", "你的结果是什么 dtype？要求的是哪种？"),
        ("Look at astype, ones, zeros and where.", "看 astype、ones、zeros 与 where。"),
        ("Make the array of the kind asked for, such as dtype=bool.", "按要求的种类创建数组，例如 dtype=bool。"),
    ),
    "wrong_shape": say(
        ("The result has another shape than asked for.", "结果的形状与要求不同。"),
        ("a result of another shape", "形状不同的结果"),
        ("What shape does the task ask for, and what is yours?", "题目要求什么形状？你的是什么形状？"),
        ("Print the shape after each line.", "在每一行之后打印形状。"),
        ("Compare with the shapes in the statement, the number of results included.", "与题目给出的形状逐一对照，包括返回几个结果。"),
    ),
    # masks
    "mask_inverted": say(
        ("The mask is read the wrong way round: True hides.", "掩码读反了：True 被当成遮住。"),
        ("attention with the mask turned round", "把掩码取反后的注意力"),
        ("Here True means: may look. What does your code do where it is True?", "这里 True 表示可以看。你的代码在 True 处做什么？"),
        ("Look at where -inf is put.", "看 -inf 填在哪里。"),
        ("np.where(mask, scores, -np.inf).", "np.where(mask, scores, -np.inf)。"),
    ),
    "mask_after_softmax": say(
        ("The mask sets weights to 0 after the softmax, and the rest no longer sums to 1.", "在 softmax 之后才把权重置 0，剩下的和不再是 1。"),
        ("attention masked after the softmax", "在 softmax 之后才加掩码的注意力"),
        ("What do the weights of a masked row sum to?", "有掩码的一行，权重之和是多少？"),
        ("Look at the order of mask and softmax.", "看掩码与 softmax 的先后。"),
        ("Put -inf into the scores before the softmax.", "在 softmax 之前把分数设为 -inf。"),
    ),
    "mask_fill_zero": say(
        ("Hidden scores are set to 0, and exp(0) is 1: the keys still take weight.", "被遮住的分数设成了 0，而 exp(0) 是 1：这些键仍分到权重。"),
        ("attention with hidden scores set to 0", "把被遮住的分数设为 0 的注意力"),
        ("How much weight does a score of 0 get?", "分数为 0 时得到多少权重？"),
        ("Look at the number put where the mask is False.", "看掩码为 False 处填的数。"),
        ("Fill with -np.inf, not 0.", "填 -np.inf，不要填 0。"),
    ),
    "mask_fill_small": say(
        ("Hidden scores get a finite number that allowed scores can fall below.", "被遮住的分数填了一个有限的数，允许看的分数可能比它更低。"),
        ("attention with hidden scores filled by a finite number", "用有限的数填充被遮住的分数的注意力"),
        ("What if every allowed score is lower than your fill?", "如果所有允许看的分数都比你填的数更低呢？"),
        ("Look at the number put where the mask is False.", "看掩码为 False 处填的数。"),
        ("Fill with -np.inf.", "填 -np.inf。"),
    ),
    "mask_times_inf": say(
        ("The mask is multiplied by infinity, and 0 · ∞ is NaN.", "掩码与无穷相乘，而 0 · ∞ 是 NaN。"),
        ("attention with (1 - mask) · (-∞) added to the scores", "把 (1 - mask) · (-∞) 加到分数上的注意力"),
        ("What is 0 * np.inf?", "0 * np.inf 是多少？"),
        ("Look at what is added to the scores where the mask is True.", "看掩码为 True 的地方给分数加上了什么。"),
        ("Choose, don't multiply: np.where(mask, scores, -np.inf).", "要选择，不要相乘：np.where(mask, scores, -np.inf)。"),
    ),
    "mask_transposed": say(
        ("The mask is transposed: row and column are swapped.", "掩码被转置了：行与列对调。"),
        ("attention with the mask transposed", "把掩码转置后的注意力"),
        ("Which axis of the mask stands for the queries?", "掩码的哪一维表示查询？"),
        ("Look at .T and swapaxes on the mask.", "看掩码上的 .T 与 swapaxes。"),
        ("Its shape is (Tq, Tk), like the scores: use it as it is.", "它的形状是 (Tq, Tk)，与分数相同：直接使用。"),
    ),
    "mask_assumes_square": say(
        ("The mask is taken to have as many columns as rows.", "代码假定掩码的行数与列数相同。"),
        ("attention that takes every mask for a square one", "把掩码都当成方阵的注意力"),
        ("What if there are 3 queries and 5 keys?", "如果有 3 个查询、5 个键呢？"),
        ("Look at reshape and at the sizes a mask is built from.", "看 reshape 以及构造掩码用的尺寸。"),
        ("Let it broadcast: np.where(mask, scores, -np.inf).", "让它广播：np.where(mask, scores, -np.inf)。"),
    ),
    "mask_ignored": say(
        ("The mask is never used.", "掩码没有被用到。"),
        ("attention without the mask", "不加掩码的注意力"),
        ("What happens when you pass another mask?", "换一个掩码传进去，结果变了吗？"),
        ("Look at where mask is read.", "看哪里读取了 mask。"),
        ("Before the softmax: if mask is not None, scores = np.where(mask, scores, -np.inf).",
         "在 softmax 之前：若 mask 不为 None，scores = np.where(mask, scores, -np.inf)。"),
    ),
    # causal
    "causal_missing": say(
        ("There is no causal mask: every token sees the future.", "没有因果掩码：每个词元都看得到未来。"),
        ("attention without a causal mask", "不加因果掩码的注意力"),
        ("If the last token changes, may the first row of the output change?", "最后一个词元变了，输出的第一行可以变吗？"),
        ("Look before the softmax: what hides the keys behind the query?", "看 softmax 之前：什么遮住了查询后面的键？"),
        ("Allow key j for query i only if j <= i: np.tril(np.ones((n, n), bool)).",
         "只有 j <= i 时，查询 i 才能看键 j：np.tril(np.ones((n, n), bool))。"),
    ),
    "causal_off_by_one": say(
        ("The causal mask is off by one on its diagonal.", "因果掩码的对角线差了一格。"),
        ("a causal mask shifted by one place", "对角线错开一格的因果掩码"),
        ("May a token look at itself? At the next one?", "词元可以看自己吗？可以看下一个吗？"),
        ("Look at k= in tril or triu, or at < and <=.", "看 tril、triu 的 k=，或者 < 与 <=。"),
        ("A token sees itself and what came before: j <= i.", "词元看得到自己和之前的：j <= i。"),
    ),
    "causal_inverted": say(
        ("The mask shows the future and hides the past.", "掩码露出了未来，遮住了过去。"),
        ("a causal mask turned round", "方向反了的因果掩码"),
        ("How many tokens may the first one look at?", "第一个词元可以看几个词元？"),
        ("Look at tril and triu, and at what True means.", "看 tril 与 triu，以及 True 的含义。"),
        ("True on and below the diagonal: np.tril(np.ones((n, n), bool)).", "对角线及其下方为 True：np.tril(np.ones((n, n), bool))。"),
    ),
    "causal_not_asked": say(
        ("A causal mask is applied although none is asked for.", "没有要求因果，却加了因果掩码。"),
        ("attention with a causal mask that nobody asked for", "多加了因果掩码的注意力"),
        ("May the first row of the output depend on the last key here?", "在这里，输出的第一行可以依赖最后一个键吗？"),
        ("Look for tril, triu or j <= i.", "找 tril、triu 或 j <= i。"),
        ("Leave the mask out where the task does not ask for it.", "题目没有要求时，不要加掩码。"),
    ),
    # what is multiplied with what
    "qk_swapped": say(
        ("Queries and keys are swapped: the scores are K Qᵀ.", "查询与键对调了：分数成了 K Qᵀ。"),
        ("attention with Q and K swapped", "Q 与 K 对调的注意力"),
        ("Which axis of the scores counts the queries?", "分数的哪一维对应查询？"),
        ("Look at the first product.", "看第一个矩阵乘法。"),
        ("scores = Q @ K.swapaxes(-1, -2).", "scores = Q @ K.swapaxes(-1, -2)。"),
    ),
    "kv_swapped": say(
        ("Keys and values are swapped.", "键与值对调了。"),
        ("attention with K and V swapped", "K 与 V 对调的注意力"),
        ("With what are the queries compared, and what is averaged?", "查询与什么比较？被平均的又是什么？"),
        ("Look at where K and V are used.", "看 K 和 V 各用在哪里。"),
        ("Scores from Q and K, output from the weights and V.", "分数来自 Q 与 K，输出来自权重与 V。"),
    ),
    "batch_axes_turned": say(
        ("K.T turns all axes around, those of the batch too.", "K.T 把所有维都倒了过来，包括批量的维。"),
        ("attention with K.T, which only fits matrices", "使用 K.T 的注意力，它只适用于矩阵"),
        ("What is the shape of K.T when K is (2, 3, 4, 8)?", "K 的形状是 (2, 3, 4, 8) 时，K.T 是什么形状？"),
        ("Look at K.T.", "看 K.T。"),
        ("Swap the last two axes only: K.swapaxes(-1, -2), or K.mT.", "只交换最后两维：K.swapaxes(-1, -2) 或 K.mT。"),
    ),
    "keys_not_transposed": say(
        ("The keys are not transposed: Q @ K fits only when there are as many keys as columns.",
         "键没有转置：只有键数等于宽度时，Q @ K 才不报错。"),
        ("attention with Q @ K in place of Q Kᵀ", "用 Q @ K 代替 Q Kᵀ 的注意力"),
        ("Which axis of Q and which of K must be summed over?", "应该沿 Q 的哪一维、K 的哪一维求和？"),
        ("Look at the first product.", "看第一个矩阵乘法。"),
        ("Q @ K.swapaxes(-1, -2).", "Q @ K.swapaxes(-1, -2)。"),
    ),
    "queries_transposed": say(
        ("The queries are transposed instead of the keys: columns are compared, not tokens.",
         "转置了查询而不是键：比较的是列，而不是词元。"),
        ("attention with Qᵀ K in place of Q Kᵀ", "用 Qᵀ K 代替 Q Kᵀ 的注意力"),
        ("What is the shape of your scores: tokens by tokens?", "你的分数是什么形状：词元数乘词元数吗？"),
        ("Look at which of the two is transposed.", "看转置的是哪一个。"),
        ("Q @ K.swapaxes(-1, -2).", "Q @ K.swapaxes(-1, -2)。"),
    ),
    "weights_transposed": say(
        ("The weights are transposed.", "权重被转置了。"),
        ("attention with its weights transposed", "权重转置后的注意力"),
        ("Does row i of your output mix the values by row i of the weights?", "输出的第 i 行，是用权重的第 i 行来混合值的吗？"),
        ("Look at the last product.", "看最后一个矩阵乘法。"),
        ("weights @ V.", "weights @ V。"),
    ),
    "returns_values_only": say(
        ("The output is V itself.", "输出就是 V 本身。"),
        ("V, not mixed by any weights", "没有用权重混合的 V"),
        ("Does your output depend on Q?", "你的输出与 Q 有关吗？"),
        ("Look at what is returned.", "看返回的是什么。"),
        ("Return weights @ V.", "返回 weights @ V。"),
    ),
    # heads
    "heads_reshape_only": say(
        ("The heads are made by a reshape alone, which mixes tokens.", "只用 reshape 分头，把不同的词元混在了一起。"),
        ("heads taken by x.reshape(n_heads, n, d_head)", "用 x.reshape(n_heads, n, d_head) 得到的头"),
        ("Which numbers of token 0 should head 1 hold?", "第 1 个头里应该有第 0 个词元的哪些数？"),
        ("Look at the reshape that splits the heads.", "看分头的 reshape。"),
        ("x.reshape(n, n_heads, d_head).swapaxes(0, 1).", "x.reshape(n, n_heads, d_head).swapaxes(0, 1)。"),
    ),
    "heads_not_in_front": say(
        ("The heads stay behind the tokens, so each token looks at its own heads, not at other tokens.",
         "头还排在词元后面，于是每个词元看的是自己的各个头，而不是别的词元。"),
        ("attention among the heads of each token", "在每个词元自己的各个头之间做的注意力"),
        ("What shape are your scores: tokens by tokens, or heads by heads?", "你的分数是什么形状：词元乘词元，还是头乘头？"),
        ("Look between the reshape that splits the heads and the first product.", "看分头的 reshape 与第一个矩阵乘法之间。"),
        ("Put the heads in front: x.reshape(n, n_heads, d_head).swapaxes(0, 1).",
         "把头移到最前：x.reshape(n, n_heads, d_head).swapaxes(0, 1)。"),
    ),
    "heads_merge_no_transpose": say(
        ("The heads are merged by a reshape alone, which mixes tokens.", "只用 reshape 合并头，把不同的词元混在了一起。"),
        ("heads merged without swapping the axes first", "没有先交换维就合并的头"),
        ("Where does head 1 of token 0 go in the merged row?", "第 0 个词元的第 1 个头，应落在合并后那一行的哪里？"),
        ("Look at the reshape that merges the heads.", "看合并头的 reshape。"),
        ("x.swapaxes(0, 1).reshape(n, n_heads * d_head).", "x.swapaxes(0, 1).reshape(n, n_heads * d_head)。"),
    ),
    "no_output_projection": say(
        ("The output projection W_O is missing.", "缺少输出投影 W_O。"),
        ("the merged heads without W_O", "没有乘 W_O 的多头结果"),
        ("How do the heads come to know of each other?", "各个头之间怎样互通？"),
        ("Look at what happens after the heads are merged.", "看合并头之后做了什么。"),
        ("return merged @ W_O.", "return merged @ W_O。"),
    ),
    "heads_averaged": say(
        ("The heads are averaged, not put beside each other.", "各个头被平均了，而不是并排拼接。"),
        ("the mean of the heads", "各个头的平均"),
        ("How wide are all heads beside each other?", "所有头并排起来有多宽？"),
        ("Look at how the heads become one.", "看各个头怎样合成一个。"),
        ("Concatenate them along the last axis.", "沿最后一维拼接。"),
    ),
    # gradients
    "backward_missing_row_sum": say(
        ("The gradient through the softmax lacks the row sum: it is p · dp alone.", "softmax 的梯度缺了整行之和，只有 p · dp。"),
        ("a softmax gradient without the row sum", "缺少整行之和的 softmax 梯度"),
        ("If one weight of a row grows, what must happen to the others?", "一行中某个权重变大时，其他权重会怎样？"),
        ("Look at what is subtracted from dp before it is multiplied by p.", "看 dp 乘 p 之前减去了什么。"),
        ("p * (dp - (p * dp).sum(axis=-1, keepdims=True)).", "p * (dp - (p * dp).sum(axis=-1, keepdims=True))。"),
    ),
    "backward_diagonal_only": say(
        ("Only the diagonal p (1 - p) of the softmax's Jacobian is used, as if it were a sigmoid.",
         "只用了 softmax 雅可比矩阵的对角线 p (1 - p)，把它当成了 sigmoid。"),
        ("a softmax gradient made of p (1 - p) alone", "只有 p (1 - p) 一项的 softmax 梯度"),
        ("Does the weight of key 1 depend on the score of key 2?", "第 1 个键的权重与第 2 个键的分数有关吗？"),
        ("Look at p * (1 - p): which entries of the Jacobian are missing?", "看 p * (1 - p)：雅可比矩阵还缺哪些元素？"),
        ("The whole of it: p * (dp - (p * dp).sum(axis=-1, keepdims=True)).",
         "完整的是：p * (dp - (p * dp).sum(axis=-1, keepdims=True))。"),
    ),
    "backward_sum_unweighted": say(
        ("The row sum of the softmax gradient is taken over dp, not over p · dp.",
         "softmax 梯度里的整行之和，加的是 dp，而不是 p · dp。"),
        ("a softmax gradient that subtracts a sum or mean not weighted by p", "减去的和或平均没有用 p 加权的 softmax 梯度"),
        ("How much does a key of weight 0 count in the row sum?", "权重为 0 的键，在整行之和里应占多少？"),
        ("Look inside the sum.", "看求和括号里的内容。"),
        ("Weight it: (p * dp).sum(axis=-1, keepdims=True).", "用 p 加权：(p * dp).sum(axis=-1, keepdims=True)。"),
    ),
    "backward_no_weights": say(
        ("In the gradient through the softmax, the factor p in front is missing.", "softmax 的梯度缺少最前面的因子 p。"),
        ("a softmax gradient without p in front of the bracket", "括号前没有乘 p 的 softmax 梯度"),
        ("What gradient has a score whose weight is 0?", "权重为 0 的那个分数，梯度是多少？"),
        ("Look at what dp minus the row sum is multiplied by.", "看 dp 减去整行之和以后乘了什么。"),
        ("Multiply the whole bracket: p * (dp - row_sum).", "整个括号都要乘 p：p * (dp - row_sum)。"),
    ),
    "backward_sign": say(
        ("In the gradient through the softmax, a sign is wrong.", "softmax 的梯度里有一个正负号错了。"),
        ("a softmax gradient with a sign turned round", "某个正负号相反的 softmax 梯度"),
        ("If the largest dp stands at key 1, should its score go up or down?", "dp 在第 1 个键处最大，它的分数梯度该为正还是为负？"),
        ("Look at the sign between dp and the row sum.", "看 dp 与整行之和之间的符号。"),
        ("dp first, minus the row sum: p * (dp - row_sum).", "dp 在前，减去整行之和：p * (dp - row_sum)。"),
    ),
    # norms and activations
    "norm_unbiased_variance": say(
        ("The variance is divided by d - 1, not by d.", "方差除以了 d - 1，而不是 d。"),
        ("a norm whose variance is divided by d - 1", "方差除以 d - 1 的归一化"),
        ("By how many numbers do you divide the sum of squares: d or d - 1?", "平方和除以的是 d 还是 d - 1？"),
        ("Look at ddof= in var or std (torch.var uses d - 1 by default).", "看 var 或 std 的 ddof=（torch.var 默认用 d - 1）。"),
        ("Divide by d: x.var(axis=-1, keepdims=True), without ddof=1.", "除以 d：x.var(axis=-1, keepdims=True)，不要 ddof=1。"),
    ),
    "norm_eps_outside_root": say(
        ("eps is added after the square root, not under it.", "eps 加在了开方之后，而不是根号里面。"),
        ("a norm that divides by sqrt(...) + eps", "除以 sqrt(...) + eps 的归一化"),
        ("For very small inputs, is sqrt(v) + eps near sqrt(v + eps)?", "输入很小时，sqrt(v) + eps 与 sqrt(v + eps) 接近吗？"),
        ("Look at where eps stands: inside or outside np.sqrt.", "看 eps 写在 np.sqrt 的里面还是外面。"),
        ("Put it under the root: np.sqrt(v + eps).", "放进根号里：np.sqrt(v + eps)。"),
    ),
    "norm_no_eps": say(
        ("eps is missing, so a token that does not vary is divided by 0.", "没有加 eps，数值毫无起伏的词元会除以 0。"),
        ("a norm without eps", "不加 eps 的归一化"),
        ("What do you divide by when all numbers of a token are the same, or are 0?", "一个词元的数全都相同（或全是 0）时，你除以的是多少？"),
        ("Look under the root.", "看根号里面。"),
        ("Add it there: np.sqrt(v + eps).", "在根号里加上：np.sqrt(v + eps)。"),
    ),
    "norm_eps_hard_coded": say(
        ("eps is a number written into the code; the argument is not used.", "eps 是写死在代码里的数，没有用传入的参数。"),
        ("a norm with an eps of its own", "自带固定 eps 的归一化"),
        ("Does your result change when another eps is passed?", "传入另一个 eps，你的结果会变吗？"),
        ("Look for a number such as 1e-5 under the root.", "在根号里找 1e-5 这样的数字。"),
        ("Use the argument: np.sqrt(v + eps).", "用传入的参数：np.sqrt(v + eps)。"),
    ),
    "norm_wrong_axis": say(
        ("Means are taken along the wrong axis: over tokens instead of features.", "沿错误的维求平均：跨词元，而不是跨特征。"),
        ("a norm along another axis", "沿另一维做的归一化"),
        ("If another token changes, may the result of this one change?", "别的词元变了，这个词元的结果可以变吗？"),
        ("Look at axis= in every mean, var and sum.", "看每个 mean、var、sum 的 axis=。"),
        ("Each token by itself: axis=-1, keepdims=True.", "每个词元各算各的：axis=-1, keepdims=True。"),
    ),
    "norm_no_affine": say(
        ("The learnt stretch or shift at the end is missing.", "缺少最后学到的伸缩或平移。"),
        ("a norm that leaves out gamma or beta", "没有用 gamma 或 beta 的归一化"),
        ("Does your result change with every one of the parameters?", "每个参数变了，你的结果都会变吗？"),
        ("Look at the last line: which parameters are used?", "看最后一行：用到了哪些参数？"),
        ("Multiply the normalised x by gamma, then add beta if there is one.", "归一化后的 x 先乘 gamma，有 beta 再加 beta。"),
    ),
    "norm_no_root": say(
        ("The root is missing: x is divided by the mean of squares itself.", "没有开方：直接除以了平方的平均。"),
        ("a norm without the square root", "没有开平方的归一化"),
        ("If x becomes twice as large, should the result change?", "x 变成两倍时，结果应该变吗？"),
        ("Look at what x is divided by.", "看 x 除以的是什么。"),
        ("Take the root: np.sqrt(v + eps).", "要开根号：np.sqrt(v + eps)。"),
    ),
    "norm_no_keepdims": say(
        ("A mean loses its axis, so it is matched with the wrong token.", "求平均时丢了一维，因此对到了别的词元上。"),
        ("a norm without keepdims=True", "缺少 keepdims=True 的归一化"),
        ("What shape has x.mean(axis=-1), and how does it broadcast against x?", "x.mean(axis=-1) 是什么形状？它怎样与 x 广播？"),
        ("Look at mean, var and sum.", "看 mean、var 与 sum。"),
        ("Keep the axis: x.mean(axis=-1, keepdims=True).", "保留这一维：x.mean(axis=-1, keepdims=True)。"),
    ),
    "gelu_tanh": say(
        ("GELU is the tanh approximation, not the exact form with erf.", "GELU 用的是 tanh 近似，而不是含 erf 的精确式。"),
        ("GELU by its tanh approximation", "用 tanh 近似的 GELU"),
        ("How far is the tanh form from the exact one at x = 2.7?", "x = 2.7 时，tanh 式与精确式相差多少？"),
        ("Look for tanh and 0.044715.", "找 tanh 与 0.044715。"),
        ("x / 2 * (1 + erf(x / √2)), with math.erf for each number.", "x / 2 * (1 + erf(x / √2))，逐个数用 math.erf。"),
    ),
    "gelu_sigmoid": say(
        ("GELU is x times a sigmoid, which is only near the exact form.", "GELU 写成了 x 乘 sigmoid，只是近似精确式。"),
        ("x times a sigmoid", "x 乘以 sigmoid 的结果"),
        ("Is a sigmoid the chance that a normal variable lies below x?", "sigmoid 等于正态变量小于 x 的概率吗？"),
        ("Look for exp and 1.702.", "找 exp 与 1.702。"),
        ("x / 2 * (1 + erf(x / √2)), with math.erf for each number.", "x / 2 * (1 + erf(x / √2))，逐个数用 math.erf。"),
    ),
}  # fmt: skip
