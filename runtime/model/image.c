/* Opening a model.so: its file, its descriptor, the CPU, in that order of trust.
 *
 * Only after all of them are right does anything call into the file. */
#include "runtime/model/image.h"

hftac_status hft_image_open(const char *path, Image *image)
{
    *image = (Image){0};
    hftac_status s = hft_file_load(path, &image->file);
    if (!s)
        s = hft_map(&image->file, &image->mapping);
    if (!s)
        s = hft_model_find(&image->file, &image->mapping, &image->model);
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
