// A picture opens in its own file, where a phone can enlarge it.
for (const picture of document.querySelectorAll(".md-content img")) {
  const link = document.createElement("a");
  link.href = picture.src;
  picture.replaceWith(link);
  link.append(picture);
}
