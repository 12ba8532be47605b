package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// group is constants that are declared together.
type group struct {
	// title is the first sentence of their comment, and note what follows it.
	title, note string
	constants   []constant
}

// constant is a value of an API, and when an object has it.
type constant struct {
	name, value, meaning string
}

// isStatus says by the name of a constant whether users read it in a status or an event.
var isStatus = regexp.MustCompile(`^(Condition|Reason|Event|JobPhase|ReplicaPhase|TensorBoard[A-Z])`)

// constantsPage returns the page of the constants of a package that users read in a status or an event.
func constantsPage(title, folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	var groups []group
	for _, file := range files { // sorted by name
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		found, err := groupsOf(parsed)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		groups = append(groups, found...)
	}
	values := map[string]string{}
	for _, g := range groups {
		for _, c := range g.constants {
			values[c.name] = c.value
		}
	}
	// Phases are what a reader sees first.
	slices.SortStableFunc(groups, func(a, b group) int { return rank(a) - rank(b) })
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n", title)
	for _, g := range groups {
		fmt.Fprintf(&page, "\n## %s\n\n", inWords(g.title, values, ""))
		if g.note != "" {
			fmt.Fprintf(&page, "%s\n\n", inWords(g.note, values, "`"))
		}
		page.WriteString("| Value | Meaning |\n| --- | --- |\n")
		for _, c := range g.constants {
			fmt.Fprintf(&page, "| `%s` | %s |\n", c.value, inWords(c.meaning, values, "`"))
		}
	}
	return page.String(), nil
}

// rank orders groups by what their constants are.
func rank(g group) int {
	name := g.constants[0].name
	return slices.IndexFunc([]string{
		"JobPhase", "ReplicaPhase", "TensorBoard", "Condition", "Reason", "Event",
	}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// groupsOf returns the constants of a file that users read. It returns an error for one that does not say when they do.
func groupsOf(file *ast.File) ([]group, error) {
	var groups []group
	for _, declaration := range file.Decls {
		declared, ok := declaration.(*ast.GenDecl)
		if !ok || declared.Tok != token.CONST {
			continue
		}
		var g group
		title, note, _ := strings.Cut(unwrapped(declared.Doc), ". ")
		g.title, g.note = strings.TrimSuffix(title, "."), note
		for _, spec := range declared.Specs {
			value := spec.(*ast.ValueSpec) //nolint:forcetypeassert // the declaration is one of constants
			name := value.Names[0].Name
			if !isStatus.MatchString(name) {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if !ok || value.Doc == nil || g.title == "" {
				return nil, fmt.Errorf(
					"%s: it must be a string in a block with a comment, and have a comment that says when it occurs",
					name,
				)
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return nil, err
			}
			meaning := strings.TrimPrefix(strings.TrimPrefix(unwrapped(value.Doc), name), ":")
			g.constants = append(g.constants, constant{name, text, strings.TrimPrefix(strings.TrimSpace(meaning), "is ")})
		}
		if len(g.constants) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// unwrapped returns a comment as one line.
func unwrapped(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// inWords puts the values of constants where a comment has their names, between quotes.
func inWords(comment string, values map[string]string, quote string) string {
	return regexp.MustCompile(`\w+`).ReplaceAllStringFunc(comment, func(word string) string {
		if value := values[word]; value != "" {
			return quote + value + quote
		}
		return word
	})
}
