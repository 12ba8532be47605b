package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// sharedPage has the types that all job kinds have.
	sharedPage = "jobs.md"
	// boardPage has the types of TensorBoards, which jobs can have.
	boardPage = "tensorboard.md"
	// jobGroup is the heading of the API group on the pages of job kinds.
	jobGroup = "## batch.tensorstack.dev/v1beta1"
	// boardGroup is the heading of the API group of TensorBoards.
	boardGroup = "## tensorstack.dev/v1beta1"
	// typeMark begins the heading of a type.
	typeMark = "#### "
)

// block is a part of a page that begins with a heading: the beginning of the page, an API group or a type.
type block string

func (b block) heading() string {
	heading, _, _ := strings.Cut(string(b), "\n")
	return heading
}

func (b block) isType() bool { return strings.HasPrefix(string(b), typeMark) }

// beginning matches the heading of an API group or of a type.
var beginning = regexp.MustCompile(`(?m)^(## [a-z.]+/|#### )`)

func blocksOf(page string) []block {
	var blocks []block
	start := 0
	for _, at := range append(beginning.FindAllStringIndex(page, -1), []int{len(page), 0}) {
		blocks = append(blocks, block(page[start:at[0]]))
		start = at[0]
	}
	return blocks
}

// shareTypes moves the types that the pages of all job kinds have to a page of their own, and leaves out the types that
// the page of TensorBoards has. The argument maps the file names of pages to their texts, and is changed.
func shareTypes(pages map[string]string) {
	kinds := map[string][]block{}
	places := map[string]int{}   // counts the pages of job kinds that have the type with a heading
	moved := map[string]string{} // maps the heading of a type to its page
	for name, page := range pages {
		if name != boardPage && strings.Contains(page, jobGroup) {
			kinds[name] = blocksOf(page)
			for _, b := range kinds[name] {
				places[b.heading()]++
			}
		}
	}
	for heading, count := range places {
		if count == len(kinds) {
			moved[heading] = sharedPage
		}
	}
	_, boards, _ := strings.Cut(pages[boardPage], boardGroup)
	for _, b := range blocksOf(boards)[1:] {
		moved[b.heading()] = boardPage
	}

	names := slices.Sorted(maps.Keys(kinds))
	appearances := map[string]string{} // maps the heading of a shared type to the lines with the types that have it
	for _, name := range names {
		for _, b := range kinds[name] {
			if moved[b.heading()] != sharedPage {
				continue
			}
			for _, line := range appearance.FindAllString(linkTypes(string(b), name, sharedPage, moved), -1) {
				if !strings.Contains(appearances[b.heading()], line) {
					appearances[b.heading()] += line
				}
			}
		}
	}

	var shared strings.Builder
	shared.WriteString("# API Reference of All Job Kinds\n\n")
	for i, name := range names {
		kept, group := "", ""
		for j, b := range kinds[name] {
			switch {
			case j == 0:
				title, _, _ := strings.Cut(string(b), "\n## Packages")
				kept = title + "\nThe types that all job kinds have are on [another page](" + sharedPage + ").\n\n"
			case !b.isType():
				group = string(b)
			case moved[b.heading()] == "":
				kept += linkTypes(group+string(b), name, name, moved)
				group = ""
			case moved[b.heading()] == sharedPage && i == 0:
				const list = "_Appears in:_\n"
				text := appearance.ReplaceAllString(string(b), "")
				text = strings.Replace(text, list, list+appearances[b.heading()], 1)
				shared.WriteString(linkTypes(text, name, sharedPage, moved))
			}
		}
		pages[name] = kept
	}
	pages[sharedPage] = shared.String()
}

// appearance matches a line with a type that has the type of the section.
var appearance = regexp.MustCompile(`(?m)^- \[\w+\]\([a-z.]*#\w+\)\n`)

// typeLink matches a link to a type of the same page.
var typeLink = regexp.MustCompile(`\[(\w+)\]\(#(\w+)\)`)

// linkTypes changes the links of a text from one page, so that they are right on another page.
func linkTypes(text, from, to string, moved map[string]string) string {
	return typeLink.ReplaceAllStringFunc(text, func(link string) string {
		name := typeLink.FindStringSubmatch(link)
		page := moved[typeMark+name[1]]
		if page == "" {
			page = from
		}
		if page == to {
			return link
		}
		return "[" + name[1] + "](" + page + "#" + name[2] + ")"
	})
}
