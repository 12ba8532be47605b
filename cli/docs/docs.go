// Package docs embeds the pages of the documentation that users need, so that kubectl train can print those of its own
// version. The folder pages has copies of them, each at its path in the repository.
package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed pages
var embedded embed.FS

// folder is the folder of the copies, with a slash.
const folder = "pages/"

// groups are the patterns of the pages, in the order in which pages are listed: the pages for people who train, those
// about the kinds, and those for administrators.
var groups = []string{"docs/train/*.md", "*/README.md", "docs/operate/*.md", "docs/reference/*.md"}

// Page is a page of the documentation.
type Page struct {
	// Name is the name of the page for the user: troubleshooting for docs/train/troubleshooting.md,
	// operate/troubleshooting for docs/operate/troubleshooting.md, and pytorch for pytorch/README.md.
	Name string
	// Title is the heading of the page.
	Title string
	// text is the page in Markdown, and file is its path in the repository.
	text, file string
}

// Pages returns all pages.
func Pages() []Page {
	var pages []Page
	for _, group := range groups {
		files, _ := fs.Glob(embedded, folder+group) // cannot fail: the patterns are valid
		for _, file := range files {
			content, _ := embedded.ReadFile(file)            // cannot fail: the file exists
			_, text, _ := strings.Cut(string(content), "# ") // generated pages have a comment before the heading
			title, _, _ := strings.Cut(text, "\n")
			file = strings.TrimPrefix(file, folder)
			pages = append(pages, Page{Name: nameOf(file), Title: title, text: "# " + text, file: file})
		}
	}
	return pages
}

// nameOf returns the name of the page that a file of the repository has.
func nameOf(file string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(file, "docs/"), "train/")
	return strings.TrimSuffix(strings.TrimSuffix(name, ".md"), "/README")
}

// link matches the target of a link to a file of the repository, or to a section of the same page.
var link = regexp.MustCompile(`\]\(([\w./-]+)?(#[\w-]+)?\)`)

// withNames replaces the targets of links by the names of pages, as Find expects them. A link to another file gets its
// path in the repository.
func withNames(text, file string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if parts[1]+parts[2] == "" { // text such as list[0]()
			return found
		}
		target := file
		if parts[1] != "" {
			target = path.Join(path.Dir(file), parts[1])
		}
		if info, err := fs.Stat(embedded, folder+target); err == nil && !info.IsDir() {
			target = nameOf(target)
		}
		return "](" + target + parts[2] + ")"
	})
}

// Find returns the text of a page, such as troubleshooting, or of a section, such as troubleshooting#failed. The error
// about an unknown page or section lists those that exist.
func Find(name string) (string, error) {
	name, anchor, isSection := strings.Cut(name, "#")
	pages := Pages()
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range pages {
			names = append(names, p.Name)
		}
		return "", fmt.Errorf("there is no page %q. The pages are: %s", name, strings.Join(names, ", "))
	}
	page := pages[i]
	page.text = withNames(page.text, page.file)
	if isSection {
		return page.section(anchor)
	}
	return page.text, nil
}

// section returns the section with an anchor: its heading, and all lines before the next heading of the same or of a
// higher level.
func (p Page) section(anchor string) (string, error) {
	var section, anchors []string
	level := 0 // the level of the heading of the section, or 0 outside the section
	inBlock := false
	for line := range strings.Lines(p.text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
		}
		heading := strings.TrimLeft(line, "#")
		if depth := len(line) - len(heading); depth > 0 && !inBlock {
			anchors = append(anchors, Anchor(heading))
			switch {
			case Anchor(heading) == anchor:
				level = depth
			case depth <= level:
				level = 0
			}
		}
		if level > 0 {
			section = append(section, line)
		}
	}
	if len(section) == 0 {
		return "", fmt.Errorf("page %s has no section %q. Its sections are: %s", p.Name, anchor,
			strings.Join(anchors[1:], ", "))
	}
	return strings.TrimRight(strings.Join(section, ""), "\n") + "\n", nil
}

// notInAnchors matches the characters of headings that anchors do not have.
var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Anchor returns the anchor of a heading. As on GitHub, it is the text in lower case, with hyphens instead of spaces
// and without other special characters.
func Anchor(heading string) string {
	text := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
	return strings.ReplaceAll(text, " ", "-")
}
