/* Opening a model.so: its file, its descriptor, the CPU, in that order of trust.
 *
 * Only after all of them are right does anything call into the file. */
#include "runtime/image.h"

#include <string.h>

#include "runtime/error.h"

/* The note tells where the descriptor lies, relative to its own field. */
static const HftacModel *find_model(const ElfFile *f, const Mapping *m)
{
    HftacNote note;
    const unsigned char *at = m->memory + f->note;
    memcpy(&note, at, sizeof note);
    const uint64_t address = f->note + offsetof(HftacNote, model) + (uint64_t)note.model;
    return hft_elf_has(f, address, sizeof(HftacModel), 0)
               ? (const HftacModel *)(const void *)(m->memory + address)
               : NULL;
}

static hftac_status check_model(const char *path, Image *image)
{
    image->model = find_model(&image->file, &image->mapping);
    if (!image->model)
        return hft_elf_unusable(&image->file, "its descriptor lies outside of it");
    const hftac_status s = hft_model_check(path, image);
    return s ? s : hft_cpu_check(path, image->model->cpu_features);
}

hftac_status hft_image_open(const char *path, Image *image)
{
    *image = (Image){0};
    hftac_status s = hft_file_load(path, &image->file);
    if (!s)
        s = hft_map(&image->file, &image->mapping);
    if (!s)
        s = check_model(path, image);
    if (s)
        hft_image_close(image);
    else
        image->symbols = hft_symbols_register(&image->file, &image->mapping);
    return s;
}

void hft_image_close(Image *image)
{
    hft_symbols_forget(image->symbols);
    hft_unmap(&image->mapping);
    hft_file_forget(&image->file);
    *image = (Image){0};
}
