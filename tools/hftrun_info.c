/* hftrun --info: what is in a model.so, as text or JSON. */
#include <errno.h>
#include <string.h>

#include "tools/hftrun.h"
#include "tools/hftrun_json.h"

static void print_shape(hftac_type type, int rank, const int64_t *dims)
{
    printf("%s[", hftac_type_text(type));
    for (int i = 0; i < rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)dims[i]);
    putchar(']');
}

static void print_domain(const hftac_hyper_description *h)
{
    static const char *const form[] = {"", "  in (%g .. %g)", "  in log(%g .. %g)",
                                       "  in int(%g .. %g)"};
    if (h->domain == HFTAC_DOMAIN_SET) {
        for (int64_t i = 0; i < h->n_set; i++)
            printf("%s%g", i ? ", " : "  in {", h->set[i]);
        putchar('}');
    } else if (h->domain == HFTAC_DOMAIN_RANGE) {
        printf(form[1], h->lo, h->hi);
    } else if (h->domain == HFTAC_DOMAIN_LOG) {
        printf(form[2], h->lo, h->hi);
    } else if (h->domain == HFTAC_DOMAIN_INT) {
        printf(form[3], h->lo, h->hi);
    }
}

static void info_text(const hftac_array *a, const hftac_description *d)
{
    printf("%s: %d models, batch %lld, %lld epochs; hftac %s, %s\n", d->name, d->capacity,
           (long long)d->batch, (long long)d->epochs, d->version, d->march);
    printf("inputs\n");
    for (int i = 0; i < d->n_inputs; i++) {
        const hftac_input_description *in = hftac_describe_input(a, i);
        printf("  %-24s ", in->name);
        print_shape(in->type, in->rank, in->dims);
        printf("%s%s\n", in->is_target ? "  target" : "", in->is_each ? "  each" : "");
    }
    printf("hyper-parameters\n");
    for (int i = 0; i < d->n_hypers; i++) {
        const hftac_hyper_description *h = hftac_describe_hyper(a, i);
        printf("  %-24s %g", h->name, h->value);
        print_domain(h);
        putchar('\n');
    }
    printf("parameters\n");
    int64_t total = 0;
    for (int i = 0; i < d->n_params; i++) {
        const hftac_param_description *p = hftac_describe_param(a, i);
        if (p->role != HFTAC_PARAMETER && p->role != HFTAC_BUFFER)
            continue;
        printf("  %-24s ", p->name);
        print_shape(p->type, p->rank, p->dims);
        printf("%s\n", p->role == HFTAC_BUFFER ? "  buffer" : "");
        total +=
            p->role == HFTAC_PARAMETER ? (int64_t)(p->bytes / hftac_type_bytes(p->type)) : 0;
    }
    printf("  %lld in all\nmetrics\n", (long long)total);
    for (int i = 0; i < d->n_metrics; i++)
        if (!hftac_describe_metric(a, i)->is_factor)
            printf("  %s\n", hftac_describe_metric(a, i)->name);
    printf("outputs\n");
    for (int i = 0; i < d->n_outputs; i++) {
        const hftac_output_description *out = hftac_describe_output(a, i);
        printf("  %-24s ", out->name);
        print_shape(out->type, out->rank, out->dims);
        putchar('\n');
    }
    if (d->evaluate_whole)
        printf("evaluation takes whole batches only: %s\n", d->evaluate_whole);
    if (d->predict_whole)
        printf("prediction takes whole batches only: %s\n", d->predict_whole);
    printf("memory: state %llu bytes a model, shared %llu, scratch %llu a thread\n",
           (unsigned long long)d->state_bytes_per_model, (unsigned long long)d->shared_bytes,
           (unsigned long long)d->scratch_bytes_per_thread);
}

static json_t *shape_json(const char *name, hftac_type type, int rank, const int64_t *dims)
{
    json_t *list = json_array();
    for (int i = 0; i < rank; i++)
        json_append(&list, json_integer((json_int_t)dims[i]));
    return json_pack("{s:s, s:s, s:o}", "name", name, "type", hftac_type_text(type), "shape",
                     list);
}

static void info_json(const hftac_array *a, const hftac_description *d)
{
    json_t *inputs = json_array(), *hypers = json_array(), *params = json_array(),
           *metrics = json_array(), *outputs = json_array();
    for (int i = 0; i < d->n_inputs; i++) {
        const hftac_input_description *in = hftac_describe_input(a, i);
        json_t *row = shape_json(in->name, in->type, in->rank, in->dims);
        json_put(&row, "target", json_boolean(in->is_target));
        json_put(&row, "each", json_boolean(in->is_each));
        json_append(&inputs, row);
    }
    for (int i = 0; i < d->n_hypers; i++)
        json_append(&hypers, json_pack("{s:s, s:f}", "name", hftac_describe_hyper(a, i)->name,
                                       "default", hftac_describe_hyper(a, i)->value));
    for (int i = 0; i < d->n_params; i++) {
        const hftac_param_description *p = hftac_describe_param(a, i);
        if (p->role == HFTAC_PARAMETER || p->role == HFTAC_BUFFER)
            json_append(&params, shape_json(p->name, p->type, p->rank, p->dims));
    }
    for (int i = 0; i < d->n_metrics; i++)
        json_append(&metrics, json_text(hftac_describe_metric(a, i)->name));
    for (int i = 0; i < d->n_outputs; i++) {
        const hftac_output_description *out = hftac_describe_output(a, i);
        json_append(&outputs, shape_json(out->name, out->type, out->rank, out->dims));
    }
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "name", d->name,
        "version", d->version, "march", d->march, "models", d->capacity, "batch",
        (json_int_t)d->batch, "epochs", (json_int_t)d->epochs, "state_bytes_per_model",
        (json_int_t)d->state_bytes_per_model, "inputs", inputs, "hypers", hypers, "parameters",
        params, "metrics", metrics, "outputs", outputs);
    json_put(&all, "evaluate_whole", json_text(d->evaluate_whole));
    json_put(&all, "predict_whole", json_text(d->predict_whole));
    if (!json_print(all, JSON_INDENT(1), stdout))
        die(EXIT_FILE, "cannot write to standard output: %s", strerror(errno));
    json_decref(all);
}

void report_info(const hftac_array *a, bool json)
{
    (json ? info_json : info_text)(a, hftac_describe(a));
}
