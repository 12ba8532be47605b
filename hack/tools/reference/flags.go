package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// option is a row of a table of flags. The field short is the letter that abbreviates the name, or empty.
type option struct {
	short, name, fallback, meaning string
}

var (
	optionLine   = regexp.MustCompile(`^ +(?:-(\w), )?--(\S+)(?: \S+)? {2,}(.+)$`)
	withFallback = regexp.MustCompile(`^(.*?) \(default:? (.*)\)$`)
)

// optionsOf returns the flags in the help text of a program, except --help.
func optionsOf(help string) []option {
	var options []option
	for line := range strings.Lines(help) {
		found := optionLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if found == nil || found[2] == "help" {
			continue
		}
		o := option{short: found[1], name: found[2], meaning: found[3]}
		if split := withFallback.FindStringSubmatch(o.meaning); split != nil {
			o.meaning, o.fallback = split[1], strings.Trim(split[2], `"[]`)
		}
		options = append(options, o)
	}
	return options
}

// flagsPage returns the page of all flags. The parameter help maps each controller to its help text. If several
// controllers have a flag with the same default and usage, the page lists it once.
func flagsPage(help map[string]string) string {
	having := map[option][]string{}
	for _, controller := range slices.Sorted(maps.Keys(help)) {
		for _, o := range optionsOf(help[controller]) {
			having[o] = append(having[o], controller)
		}
	}
	sections := map[string][]option{}
	for o, controllers := range having {
		title := strings.Join(controllers, ", ")
		if len(controllers) == len(help) {
			title = "Every controller"
		}
		sections[title] = append(sections[title], o)
	}
	var page strings.Builder
	page.WriteString("# Flags of the controllers\n")
	// The section "Every controller" comes first. The more controllers another section is about, the earlier it comes.
	titles := slices.SortedFunc(maps.Keys(sections), func(a, b string) int {
		if n := strings.Count(b, ",") - strings.Count(a, ","); n != 0 && a != "Every controller" && b != "Every controller" {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, title := range titles {
		fmt.Fprintf(&page, "\n## %s\n\n| Flag | Default | Meaning |\n| --- | --- | --- |\n", title)
		slices.SortFunc(sections[title], func(a, b option) int { return strings.Compare(a.name, b.name) })
		for _, o := range sections[title] {
			fmt.Fprintf(&page, "| `--%s` | %s | %s |\n", o.name, o.fallback, strings.ReplaceAll(o.meaning, "|", `\|`))
		}
	}
	return page.String()
}
