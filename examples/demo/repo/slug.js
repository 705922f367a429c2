// Turns a title into the part of a URL that names a page.
export function slug(title) {
  return title.toLowerCase().replace(/ /g, '-')
}
