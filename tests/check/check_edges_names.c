/* Which functions and layers have a case: every `fn` and `block` of the standard library and
 * every built-in function must be called by the text of a case, or stand in the list below with
 * the reason why not. */
#include "tests/check/check_edges.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

/* Names that need no case of their own. */
static const struct {
    const char *reason, *names;
} exceptions[] = {
    {"parts of functions and layers that have cases",
     "may_matter below above is_zero check_padding_idx check_kind check_range has_axes "
     "shared_extreme "
     "sharing all_dims without_dims sqrt_flat "
     "masked_dropout dropout_channels class_numbers is_class class_matches below_zero "
     "reduce_loss class_targets "
     "class_loss soft_cross_entropy along vector pair_loss per_channel batch_axes values_of "
     "standardize if_finite check_eps "
     "batch_norm_training BatchNorm normalized_groups InstanceNorm last_dims pool_count "
     "pool_windows first_axes "
     "max_pool window_counts avg_pool adaptive_sizes in_adaptive_window map_axis "
     "adaptive_avg_pool adaptive_max_pool "
     "source_index linear_matrix select_checked embedding_init lower_triangle pad_axis_from "
     "pad_axes axes_from "
     "all_ones check_positive check_kernel conv_padding conv_over_windows conv_over_points "
     "without_idle_taps conv "
     "kernel_bound Conv conv_transposed ConvTranspose recurrent_params recurrent_step "
     "recurrent_run Recurrent "
     "RecurrentCell minus_infinity places_in_order comes_before first_in_order log_to_base "
     "length_along "
     "random_shift moved_elements masked_scores later AttentionOutput split_heads per_head"},
    {"of indices and shapes: no value is computed",
     "elements_at split repeat shape rank len reversed reshape flatten unflatten squeeze "
     "unsqueeze permute transpose "
     "expand slice pad_dim window chunk gather_elements scatter_elements einsum rearrange"},
    {"known at compile time, or about what the compiler does",
     "dtype count arange eye zeros ones full check_index average avg ntuple epoch_metric "
     "is_same is_list is_tensor "
     "check Sequential detach with_slope"},
    {"random numbers and first values",
     "random_bits rand randn rand_like randn_like gumbel_softmax random_flip random_crop "
     "random_horizontal_flip random_vertical_flip Param normal uniform kaiming_uniform "
     "kaiming_normal "
     "xavier_uniform xavier_normal"},
    {"not in PyTorch", "top_k_accuracy"},
};

static bool word_at(const char *text, const char *p, size_t n)
{
    const bool starts = p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
    return starts && !(isalnum((unsigned char)p[n]) || p[n] == '_');
}

static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if (word_at(text, p, n))
            return true;
    return false;
}

static bool has_case(const json_t *cases, const char *name)
{
    for (size_t i = 0; i < json_array_size(cases); i++)
        if (has_word(json_string_value(json_object_get(json_array_get(cases, i), "text")),
                     name))
            return true;
    return false;
}

static bool is_exception(const char *name)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (has_word(exceptions[i].names, name))
            return true;
    return false;
}

static int check_name(const json_t *cases, const char *name)
{
    const bool tried = has_case(cases, name), excepted = is_exception(name);
    if (tried || excepted)
        return 0;
    printf("FAILED: %s has no case in tests/edges\n", name);
    return 1;
}

/* The names behind `prefix` at the beginnings of a file's lines; how many there were and failed. */
static int check_lines(const json_t *cases, const char *path, const char *prefix, int *seen)
{
    char line[4096], name[64];
    int failed = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        fatal("cannot read '%s'", path);
    while (fgets(line, sizeof line, f)) {
        const size_t n = strlen(prefix);
        if (strncmp(line, prefix, n))
            continue;
        const size_t length =
            strspn(line + n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        snprintf(name, sizeof name, "%.*s", (int)length, line + n);
        failed += check_name(cases, name);
        ++*seen;
    }
    fclose(f);
    return failed;
}

int edges_without_case(const json_t *cases, const char *std, const char *builtins)
{
    int seen = 0, failed = check_lines(cases, builtins, "BUILTIN(", &seen);
    DIR *d = opendir(std);
    if (!d)
        fatal("cannot read directory '%s'", std);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        const char *dot = strrchr(e->d_name, '.');
        /* How parameters are updated is not a function of their values alone: check_optim. */
        if (!dot || strcmp(dot, ".hdl") || !strcmp(e->d_name, "optimizers.hdl") ||
            !strcmp(e->d_name, "schedules.hdl"))
            continue;
        snprintf(path, sizeof path, "%s/%s", std, e->d_name);
        failed += check_lines(cases, path, "fn ", &seen);
        failed += check_lines(cases, path, "block ", &seen);
    }
    closedir(d);
    if (seen < 200)
        fatal("only %d functions and layers were found", seen);
    return failed;
}
