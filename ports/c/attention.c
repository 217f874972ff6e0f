/* Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. Standard C99 and nothing else.
 *
 *   cc -O2 -o attention attention.c -lm
 *   ./attention          the sentence 远方有颗苹果树, step by step
 *   ./attention judge    one JSON object on standard input, {"result": [output, weights]} on standard output
 */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 8 };

/* An array: the last two axes are rows and columns, those in front are a batch. n_axes is 0 for a number or null. */
typedef struct {
    int n_axes;
    size_t shape[MOST_AXES];
    size_t size;
    double *data;
} Array;

static void fail(const char *message) {
    fprintf(stderr, "attention: %s\n", message);
    exit(1);
}

static void *grown(void *memory, size_t bytes) {
    memory = realloc(memory, bytes ? bytes : 1);
    if (!memory) fail("out of memory");
    return memory;
}

static size_t rows(const Array *a) { return a->shape[a->n_axes - 2]; }
static size_t columns(const Array *a) { return a->shape[a->n_axes - 1]; }

static size_t batches(const Array *a) {
    size_t n = 1;
    for (int axis = 0; axis < a->n_axes - 2; axis++) n *= a->shape[axis];
    return n;
}

static const double *row(const Array *a, size_t batch, size_t i) {
    return a->data + (batch * rows(a) + i) * columns(a);
}

/* An array of zeros with the batch of `like` and these last two axes. */
static Array zeros(const Array *like, size_t n_rows, size_t n_columns) {
    Array a = *like;
    a.shape[a.n_axes - 2] = n_rows;
    a.shape[a.n_axes - 1] = n_columns;
    a.size = batches(&a) * n_rows * n_columns;
    a.data = grown(NULL, a.size * sizeof(double));
    for (size_t n = 0; n < a.size; n++) a.data[n] = 0;
    return a;
}

/* ---- attention ---- */

/* A mask is (Tq, Tk), the same for the whole batch, or has the axes of the batch too. */
static bool may_look(const Array *mask, size_t batch, size_t i, size_t j) {
    if (!mask->n_axes) return true;
    return row(mask, mask->n_axes == 2 ? 0 : batch, i)[j] != 0;
}

static void check_shapes(const Array *Q, const Array *K, const Array *V, const Array *mask) {
    if (Q->n_axes < 2 || K->n_axes != Q->n_axes || V->n_axes != Q->n_axes) fail("Q, K and V need equally many axes, at least 2");
    for (int axis = 0; axis < Q->n_axes - 2; axis++)
        if (K->shape[axis] != Q->shape[axis] || V->shape[axis] != Q->shape[axis]) fail("Q, K and V have unlike batches");
    if (columns(K) != columns(Q)) fail("K has not as many columns as Q");
    if (rows(V) != rows(K)) fail("V has not as many rows as K");
    if (!mask->n_axes) return;
    if (mask->n_axes != 2 && mask->n_axes != Q->n_axes) fail("the mask needs the axes (Tq, Tk)");
    if (rows(mask) != rows(Q) || columns(mask) != rows(K)) fail("the mask is not (Tq, Tk)");
    if (mask->n_axes > 2 && batches(mask) != batches(Q)) fail("the mask has another batch than Q");
}

/* scores[i][j] = q_i . k_j */
static Array products(const Array *Q, const Array *K) {
    Array scores = zeros(Q, rows(Q), rows(K));
    double *score = scores.data;
    for (size_t batch = 0; batch < batches(Q); batch++)
        for (size_t i = 0; i < rows(Q); i++)
            for (size_t j = 0; j < rows(K); j++, score++)
                for (size_t c = 0; c < columns(Q); c++) *score += row(Q, batch, i)[c] * row(K, batch, j)[c];
    return scores;
}

static Array scaled_by_root(const Array *scores, size_t d_k) {
    Array scaled = zeros(scores, rows(scores), columns(scores));
    for (size_t n = 0; n < scaled.size; n++) scaled.data[n] = scores->data[n] / sqrt((double)d_k);
    return scaled;
}

/* Softmax over the keys that may be looked at; a row that may look at nothing stays 0. */
static Array softmax(const Array *scaled, const Array *mask) {
    Array weights = zeros(scaled, rows(scaled), columns(scaled));
    double *weight = weights.data;
    for (size_t batch = 0; batch < batches(scaled); batch++)
        for (size_t i = 0; i < rows(scaled); i++, weight += columns(scaled)) {
            const double *score = row(scaled, batch, i);
            double top = -INFINITY, total = 0;
            for (size_t j = 0; j < columns(scaled); j++)
                if (may_look(mask, batch, i, j) && (score[j] > top || isnan(score[j]))) top = score[j];
            for (size_t j = 0; j < columns(scaled); j++)
                if (may_look(mask, batch, i, j)) total += weight[j] = exp(score[j] - top);
            for (size_t j = 0; j < columns(scaled); j++)
                if (may_look(mask, batch, i, j)) weight[j] /= total;
        }
    return weights;
}

/* Each output row is the average of the values by its weights; a hidden value takes no part, whatever it holds. */
static Array mixed(const Array *weights, const Array *V, const Array *mask) {
    Array output = zeros(weights, rows(weights), columns(V));
    double *out = output.data;
    for (size_t batch = 0; batch < batches(weights); batch++)
        for (size_t i = 0; i < rows(weights); i++, out += columns(V))
            for (size_t j = 0; j < rows(V); j++)
                if (may_look(mask, batch, i, j))
                    for (size_t c = 0; c < columns(V); c++) out[c] += row(weights, batch, i)[j] * row(V, batch, j)[c];
    return output;
}

static void show(bool aloud, const char *name, const Array *a) {
    if (!aloud) return;
    printf("%s: (", name);
    for (int axis = 0; axis < a->n_axes; axis++) printf(axis ? ", %zu" : "%zu", a->shape[axis]);
    printf(")\n");
}

static Array attention(const Array *Q, const Array *K, const Array *V, const Array *mask, Array *weights, bool aloud) {
    check_shapes(Q, K, V, mask);
    Array scores = products(Q, K);
    show(aloud, "1. 分数 scores = Q Kᵀ", &scores);
    Array scaled = scaled_by_root(&scores, columns(Q));
    show(aloud, "2. 缩放 scaled = scores / √d_k", &scaled);
    *weights = softmax(&scaled, mask);
    show(aloud, "3. 权重 weights = softmax(scaled)", weights);
    Array output = mixed(weights, V, mask);
    show(aloud, "4. 输出 output = weights V", &output);
    free(scores.data);
    free(scaled.data);
    return output;
}

/* ---- JSON: only as much as the judge speaks ---- */

static const char *at;

static void skip_space(void) {
    while (isspace((unsigned char)*at)) at++;
}

static bool next_is(char sign) {
    skip_space();
    if (*at != sign) return false;
    at++;
    return true;
}

static void expect(char sign) {
    if (!next_is(sign)) fail("the input is not the JSON that was expected");
}

/* A string without its quotes; the names and numbers of the judge hold no escapes. */
static size_t read_string(const char **start) {
    expect('"');
    *start = at;
    while (*at && *at != '"') at += *at == '\\' && at[1] ? 2 : 1;
    size_t length = (size_t)(at - *start);
    expect('"');
    return length;
}

static bool word(const char *letters) {
    size_t n = strlen(letters);
    if (strncmp(at, letters, n)) return false;
    at += n;
    return true;
}

/* A number, true, false, or one of the strings "NaN", "Infinity" and "-Infinity" (which strtod knows). */
static double read_number(void) {
    skip_space();
    if (word("true")) return 1;
    if (word("false")) return 0;
    bool quoted = next_is('"');
    char *end;
    double number = strtod(at, &end);
    if (end == at) fail("a number was expected");
    at = end;
    if (quoted) expect('"');
    return number;
}

static void read_axis(Array *a, int axis, size_t *room) {
    skip_space();
    if (*at != '[') {
        if (axis != a->n_axes) fail("the rows of an array have unlike lengths");
        if (a->size == *room) a->data = grown(a->data, (*room = 2 * *room + 16) * sizeof(double));
        a->data[a->size++] = read_number();
        return;
    }
    at++;
    if (axis == MOST_AXES) fail("an array has too many axes");
    bool first = a->size == 0 && axis == a->n_axes;
    if (first) a->n_axes++;
    size_t length = 0;
    if (!next_is(']')) {
        do {
            read_axis(a, axis + 1, room);
            length++;
        } while (next_is(','));
        expect(']');
    }
    if (first) a->shape[axis] = length;
    if (axis >= a->n_axes || a->shape[axis] != length) fail("the rows of an array have unlike lengths");
}

static Array read_array(void) {
    Array a = {0};
    size_t room = 0;
    skip_space();
    if (!word("null")) read_axis(&a, 0, &room);
    return a;
}

static void read_arguments(Array *Q, Array *K, Array *V, Array *mask) {
    static const char *const names[] = {"Q", "K", "V", "mask"};
    Array *const places[] = {Q, K, V, mask};
    expect('{');
    do {
        const char *name;
        size_t length = read_string(&name);
        int which = 0;
        while (which < 4 && (strlen(names[which]) != length || strncmp(names[which], name, length))) which++;
        if (which == 4) fail("an argument is not Q, K, V or mask");
        expect(':');
        free(places[which]->data);
        *places[which] = read_array();
    } while (next_is(','));
    expect('}');
}

static void write_axis(const Array *a, int axis, const double **next) {
    if (axis == a->n_axes) {
        double number = *(*next)++;
        if (isnan(number)) printf("\"NaN\"");
        else if (isinf(number)) printf(number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        else printf("%.17g", number);
        return;
    }
    putchar('[');
    for (size_t n = 0; n < a->shape[axis]; n++) {
        if (n) putchar(',');
        write_axis(a, axis + 1, next);
    }
    putchar(']');
}

static void write_array(const Array *a) {
    const double *next = a->data;
    write_axis(a, 0, &next);
}

static char *all_of_input(void) {
    char *text = NULL;
    size_t length = 0, room = 0;
    do {
        if (room - length < 2) text = grown(text, room = 2 * room + 4096);
        length += fread(text + length, 1, room - length - 1, stdin);
    } while (!feof(stdin) && !ferror(stdin));
    text[length] = '\0';
    return text;
}

static void judge(void) {
    Array Q = {0}, K = {0}, V = {0}, mask = {0}, weights;
    char *text = all_of_input();
    at = text;
    expect('{');
    do {
        const char *name, *task;
        size_t length = read_string(&name);
        expect(':');
        if (length == 4 && !strncmp(name, "task", 4)) {
            length = read_string(&task);
            if (length != 28 || strncmp(task, "scaled_dot_product_attention", 28)) fail("this port knows scaled_dot_product_attention only");
        } else read_arguments(&Q, &K, &V, &mask);
    } while (next_is(','));
    Array output = attention(&Q, &K, &V, &mask, &weights, false);
    printf("{\"result\": [");
    write_array(&output);
    printf(", ");
    write_array(&weights);
    printf("]}\n");
    free(text);
    free(Q.data);
    free(K.data);
    free(V.data);
    free(mask.data);
    free(weights.data);
    free(output.data);
}

/* ---- the sentence of the article ---- */

static double X[] = {
    0.4967, -0.1383, 0.6477, 1.523, -0.2342, -0.2341, 1.5792, 0.7674, -0.4695, 0.5426, -0.4634, -0.4657, 0.242, -1.9133,
    -1.7249, -0.5623, -1.0128, 0.3142, -0.908, -1.4123, 1.4656, -0.2258, 0.0675, -1.4247, -0.5444, 0.1109, -1.151, 0.3757,
};
static double W_Q[] = {
    -0.6006, -0.2917, -0.6017, 1.8523, -0.0135, -1.0577, 0.8225, -1.2208,
    0.2089, -1.9597, -1.3282, 0.1969, 0.7385, 0.1714, -0.1156, -0.3011,
};
static double W_K[] = {
    -1.4785, -0.7198, -0.4606, 1.0571, 0.3436, -1.763, 0.3241, -0.3851,
    -0.6769, 0.6117, 1.031, 0.9313, -0.8392, -0.3092, 0.3313, 0.9755,
};
static double W_V[] = {
    -0.4792, -0.1857, -1.1063, -1.1962, 0.8125, 1.3562, -0.072, 1.0035,
    0.3616, -0.6451, 0.3614, 1.538, -0.0358, 1.5646, -2.6197, 0.8219,
};

static Array matrix(double *data, size_t n_rows, size_t n_columns) {
    Array a = {2, {n_rows, n_columns}, n_rows * n_columns, data};
    return a;
}

static Array projected(const Array *x, double *W) {
    Array w = matrix(W, 4, 4), y = zeros(x, rows(x), columns(&w));
    for (size_t i = 0; i < rows(x); i++)
        for (size_t j = 0; j < columns(&w); j++)
            for (size_t c = 0; c < rows(&w); c++) y.data[i * columns(&w) + j] += row(x, 0, i)[c] * row(&w, 0, c)[j];
    return y;
}

static void print_rows(const Array *a, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t c = 0; c < columns(a); c++) printf(c ? " %8.4f" : "%8.4f", row(a, 0, i)[c]);
        printf("\n");
    }
}

static void example(void) {
    Array x = matrix(X, 7, 4), weights, no_mask = {0};
    printf("远方有颗苹果树\n");
    show(true, "输入 X", &x);
    Array Q = projected(&x, W_Q), K = projected(&x, W_K), V = projected(&x, W_V);
    show(true, "查询 Q = X W_Q", &Q);
    show(true, "键 K = X W_K", &K);
    show(true, "值 V = X W_V", &V);
    Array output = attention(&Q, &K, &V, &no_mask, &weights, true);
    printf("远 weights[0]:\n");
    print_rows(&weights, 1);
    printf("output:\n");
    print_rows(&output, rows(&output));
    free(Q.data);
    free(K.data);
    free(V.data);
    free(weights.data);
    free(output.data);
}

int main(int n_arguments, char **arguments) {
    if (n_arguments == 1) example();
    else if (!strcmp(arguments[1], "judge")) judge();
    else fail("usage: attention [judge]");
    return 0;
}
