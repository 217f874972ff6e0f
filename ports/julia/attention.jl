# Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. Base and nothing else.
#
#   julia attention.jl          the sentence 远方有颗苹果树, step by step
#   julia attention.jl judge    one JSON object on standard input, {"result": [output, weights]} on standard output

check(fits, message) = fits || error(message)

# ---- attention: Q, K, V are matrices; `seen` is a Boolean matrix (Tq, Tk), true = may look ----

products(Q, K) = [sum((Q[i, c] * K[j, c] for c in axes(Q, 2)); init = 0.0) for i in axes(Q, 1), j in axes(K, 1)]

scaled_by_root(scores, d_k) = scores ./ sqrt(d_k)

# Softmax over the keys that may be looked at; a row that may look at nothing stays 0.
function softmax(scaled, seen)
    weights = zeros(size(scaled))
    for i in axes(scaled, 1)
        j = findall(seen[i, :])
        isempty(j) && continue
        exps = exp.(scaled[i, j] .- maximum(scaled[i, j]))
        weights[i, j] = exps ./ sum(exps)
    end
    return weights
end

# Each output row is the average of the values by its weights; a hidden value takes no part, whatever it holds.
function mixed(weights, V, seen)
    output = zeros(size(weights, 1), size(V, 2))
    for i in axes(weights, 1), j in findall(seen[i, :]), c in axes(V, 2)
        output[i, c] += weights[i, j] * V[j, c]
    end
    return output
end

tell(aloud, name, A) = aloud && println(name, ": ", size(A))

function of_matrices(Q, K, V, seen, aloud = false)
    scores = products(Q, K)
    tell(aloud, "1. 分数 scores = Q Kᵀ", scores)
    scaled = scaled_by_root(scores, size(Q, 2))
    tell(aloud, "2. 缩放 scaled = scores / √d_k", scaled)
    weights = softmax(scaled, seen)
    tell(aloud, "3. 权重 weights = softmax(scaled)", weights)
    output = mixed(weights, V, seen)
    tell(aloud, "4. 输出 output = weights V", output)
    return output, weights
end

# On nested lists. With axes in front, attention runs for each entry of the batch; a mask (Tq, Tk) serves all of them.
function attention(Q, K, V, mask)
    if length(shape(Q)) == 2
        seen = mask === nothing ? fill(true, length(Q), length(K)) : matrix(mask) .!= 0
        return of_matrices(matrix(Q), matrix(K), matrix(V), seen)
    end
    shared = mask === nothing || length(shape(mask)) == 2
    results = [attention(Q[b], K[b], V[b], shared ? mask : mask[b]) for b in eachindex(Q)]
    return first.(results), last.(results)
end

# ---- shapes of nested lists ----

shape(list) = list isa Vector ? (length(list), (isempty(list) ? () : shape(list[1]))...) : ()

is_regular(list, sizes) =
    isempty(sizes) ? !(list isa Vector) :
    list isa Vector && length(list) == sizes[1] && all(part -> is_regular(part, sizes[2:end]), list)

function check_shapes(Q, K, V, mask)
    for list in (Q, K, V, mask)
        list === nothing && continue
        check(length(shape(list)) >= 2, "an array needs at least 2 axes")
        check(is_regular(list, shape(list)), "the rows of an array have unlike lengths")
    end
    q, k, v = shape(Q), shape(K), shape(V)
    check(length(q) == length(k) == length(v), "Q, K and V need equally many axes")
    check(q[1:end-2] == k[1:end-2] == v[1:end-2], "Q, K and V have unlike batches")
    check(k[end] == q[end], "K has $(k[end]) columns but Q has $(q[end])")
    check(v[end-1] == k[end-1], "V has $(v[end-1]) rows but K has $(k[end-1])")
    mask === nothing && return
    m = shape(mask)
    check(m[end-1:end] == (q[end-1], k[end-1]), "the mask is not (Tq, Tk)")
    check(length(m) == 2 || m[1:end-2] == q[1:end-2], "the mask has another batch than Q")
end

matrix(rows) = [number(rows[i][j]) for i in eachindex(rows), j in eachindex(rows[1])]

# ---- JSON: only as much as the judge speaks. What is not finite travels as text ----

number(value::Real) = Float64(value)
number(value::String) = Dict("NaN" => NaN, "Infinity" => Inf, "-Infinity" => -Inf)[value]

mutable struct Reader
    signs::Vector{Char}
    at::Int
end

function ahead(reader)
    while reader.at <= length(reader.signs) && isspace(reader.signs[reader.at])
        reader.at += 1
    end
    check(reader.at <= length(reader.signs), "the input ends too early")
    return reader.signs[reader.at]
end

function next_is(reader, sign)
    found = ahead(reader) == sign
    found && (reader.at += 1)
    return found
end

expect(reader, sign) = check(next_is(reader, sign), "$sign was expected in the input")

function read_value(reader)
    sign = ahead(reader)
    sign == '{' && return read_object(reader)
    sign == '[' && return read_list(reader)
    sign == '"' && return read_string(reader)
    start = reader.at
    while reader.at <= length(reader.signs) && !(reader.signs[reader.at] in ",]}") && !isspace(reader.signs[reader.at])
        reader.at += 1
    end
    word = String(reader.signs[start:reader.at-1])
    word == "null" && return nothing
    return word == "true" ? true : word == "false" ? false : parse(Float64, word)
end

# A string; the names and numbers of the judge hold no escapes.
function read_string(reader)
    expect(reader, '"')
    start = reader.at
    while reader.at <= length(reader.signs) && reader.signs[reader.at] != '"'
        reader.at += 1
    end
    text = String(reader.signs[start:reader.at-1])
    expect(reader, '"')
    return text
end

function read_list(reader)
    list = Any[]
    expect(reader, '[')
    next_is(reader, ']') && return list
    while true
        push!(list, read_value(reader))
        next_is(reader, ',') || break
    end
    expect(reader, ']')
    return list
end

function read_object(reader)
    object = Dict{String,Any}()
    expect(reader, '{')
    next_is(reader, '}') && return object
    while true
        name = read_string(reader)
        expect(reader, ':')
        object[name] = read_value(reader)
        next_is(reader, ',') || break
    end
    expect(reader, '}')
    return object
end

written(list::AbstractVector) = "[" * join(map(written, list), ",") * "]"
written(A::AbstractMatrix) = written([A[i, :] for i in axes(A, 1)])
written(x::Real) = isfinite(x) ? string(x) : isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\""

function judge()
    question = read_value(Reader(collect(read(stdin, String)), 1))
    check(question isa Dict && get(question, "task", "") == "scaled_dot_product_attention",
          "this port knows scaled_dot_product_attention only")
    Q, K, V, mask = (get(question["arguments"], name, nothing) for name in ("Q", "K", "V", "mask"))
    check(!any(isnothing, (Q, K, V)), "Q, K or V is missing")
    check_shapes(Q, K, V, mask)
    output, weights = attention(Q, K, V, mask)
    println("{\"result\": [", written(output), ", ", written(weights), "]}")
end

# ---- the sentence of the article ----

const X = [
    0.4967 -0.1383 0.6477 1.523
    -0.2342 -0.2341 1.5792 0.7674
    -0.4695 0.5426 -0.4634 -0.4657
    0.242 -1.9133 -1.7249 -0.5623
    -1.0128 0.3142 -0.908 -1.4123
    1.4656 -0.2258 0.0675 -1.4247
    -0.5444 0.1109 -1.151 0.3757
]
const W_Q = [
    -0.6006 -0.2917 -0.6017 1.8523
    -0.0135 -1.0577 0.8225 -1.2208
    0.2089 -1.9597 -1.3282 0.1969
    0.7385 0.1714 -0.1156 -0.3011
]
const W_K = [
    -1.4785 -0.7198 -0.4606 1.0571
    0.3436 -1.763 0.3241 -0.3851
    -0.6769 0.6117 1.031 0.9313
    -0.8392 -0.3092 0.3313 0.9755
]
const W_V = [
    -0.4792 -0.1857 -1.1063 -1.1962
    0.8125 1.3562 -0.072 1.0035
    0.3616 -0.6451 0.3614 1.538
    -0.0358 1.5646 -2.6197 0.8219
]

projected(A, W) = [sum(A[i, c] * W[c, j] for c in axes(A, 2)) for i in axes(A, 1), j in axes(W, 2)]

# Four decimals, eight wide. (Printf would do it, but it is not in Base.)
function fixed(x)
    whole, decimals = divrem(round(Int, abs(x) * 10_000), 10_000)
    return lpad((x < 0 ? "-" : "") * string(whole) * "." * lpad(decimals, 4, '0'), 8)
end

line(row) = join(map(fixed, row), " ")

function example()
    println("远方有颗苹果树")
    tell(true, "输入 X", X)
    Q, K, V = projected(X, W_Q), projected(X, W_K), projected(X, W_V)
    tell(true, "查询 Q = X W_Q", Q)
    tell(true, "键 K = X W_K", K)
    tell(true, "值 V = X W_V", V)
    output, weights = of_matrices(Q, K, V, fill(true, 7, 7), true)
    println("远 weights[0]:\n", line(weights[1, :]))
    println("output:")
    for i in axes(output, 1)
        println(line(output[i, :]))
    end
end

try
    check(isempty(ARGS) || ARGS[1] == "judge", "usage: julia attention.jl [judge]")
    isempty(ARGS) ? example() : judge()
catch problem
    println(stderr, "attention: ", sprint(showerror, problem))
    exit(1)
end
