/* Trains the eight models in digits.so with eight learning rates and prints how each did.
 *
 *     hftac samples/digits.hdl -B 8 -o digits.so
 *     cc train_digits.c $(pkg-config --cflags --libs hftac) -o train_digits
 *     ./train_digits digits.so samples/data/digits-train.safetensors
 *     samples/data/digits-test.safetensors */
#include <hftac.h>
#include <stdio.h>

static const double rates[] = {1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2};

/* Ends the function with the status of a call that fails; main prints the sentence. */
#define TRY(call)                           \
    do {                                    \
        const hftac_status status = (call); \
        if (status != HFTAC_OK)             \
            return status;                  \
    } while (0)

static hftac_status set_rates(hftac_array *a)
{
    hftac_hyper lr;
    TRY(hftac_find_hyper(a, "lr", &lr));
    for (int b = 0; b < hftac_model_count(a); b++)
        TRY(hftac_set_hyper(a, lr, b, rates[b % 8]));
    return HFTAC_OK;
}

static hftac_status train(hftac_array *a, hftac_data *data)
{
    hftac_pass pass = {0};
    const hftac_train_options options = {.seed = 1};
    for (int64_t epoch = 0; epoch < hftac_describe(a)->epochs; epoch++) {
        TRY(hftac_train_epoch(a, data, &options, &pass));
        if (epoch + 1 <
            hftac_describe(a)->epochs) /* the last epoch's mean loss is printed below */
            TRY(hftac_epoch_end(a, HFTAC_NO_METRIC));
    }
    printf(
        "%d models, %d epochs of %d steps; %d samples of the last partial batch are left out\n",
        (int)hftac_model_count(a), (int)hftac_describe(a)->epochs, (int)pass.steps,
        (int)pass.dropped);
    return HFTAC_OK;
}

static hftac_status print_table(const hftac_array *a)
{
    hftac_metric loss, acc;
    TRY(hftac_find_metric(a, "loss", &loss));
    TRY(hftac_find_metric(a, "acc", &acc));
    printf("%5s %10s %10s %10s %10s  %s\n", "model", "lr", "train loss", "test loss",
           "test acc", "state");
    for (int b = 0; b < hftac_model_count(a); b++) {
        double train_loss, test_loss, test_acc;
        hftac_model_status model;
        TRY(hftac_read_epoch_metric(a, loss, b, &train_loss));
        TRY(hftac_read_metric(a, loss, b, &test_loss));
        TRY(hftac_read_metric(a, acc, b, &test_acc));
        TRY(hftac_read_model(a, b, &model));
        printf("%5d %10g %10.4f %10.4f %10.4f  %s\n", b, rates[b % 8], train_loss, test_loss,
               test_acc, model.text);
    }
    return HFTAC_OK;
}

static hftac_status run(hftac_array *a, const char *train_path, const char *test_path)
{
    hftac_data *data = NULL, *test = NULL;
    const hftac_data_options for_test = {.purpose = HFTAC_FOR_EVALUATION};
    hftac_status s = hftac_data_open(a, train_path, NULL, &data);
    if (s == HFTAC_OK)
        s = hftac_data_open(a, test_path, &for_test, &test);
    if (s == HFTAC_OK)
        s = set_rates(a);
    if (s == HFTAC_OK)
        s = train(a, data);
    if (s == HFTAC_OK)
        s = hftac_evaluate(a, test, NULL, NULL);
    if (s == HFTAC_OK)
        s = print_table(a);
    hftac_data_close(test);
    hftac_data_close(data);
    return s;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: train_digits digits.so train.safetensors test.safetensors\n");
        return 2;
    }
    hftac_array *a = NULL;
    hftac_status s = hftac_open(argv[1], NULL, &a);
    if (s == HFTAC_OK)
        s = run(a, argv[2], argv[3]);
    if (s != HFTAC_OK)
        fprintf(stderr, "train_digits: %s\n", hftac_last_error());
    hftac_close(a);
    return s != HFTAC_OK;
}
