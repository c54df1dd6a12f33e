"""A model as a picture in one dimension or two, in numbers: what the page and the plots draw."""
