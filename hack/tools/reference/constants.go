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

// group is a block of constants.
type group struct {
	// title is the first sentence of the block's comment, and note is the rest of it.
	title, note string
	constants   []constant
}

// constant is a value of an API field and its meaning.
type constant struct {
	name, value, meaning string
}

// isStatus matches the names of constants that users see in a status or an event.
var isStatus = regexp.MustCompile(`^(Condition|Reason|Event|JobPhase|ReplicaPhase|TensorBoard[A-Z])`)

// constantsPage returns the page that lists the constants of a package, except constants that users do not see in a
// status or an event.
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
	// Phases come first because users see them first.
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

// rank returns the position of a group on the page. The position depends on the kind of the group's constants.
func rank(g group) int {
	name := g.constants[0].name
	return slices.IndexFunc([]string{
		"JobPhase", "ReplicaPhase", "TensorBoard", "Condition", "Reason", "Event",
	}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// groupsOf returns the constants of a file that users see in a status or an event. It returns an error if such a
// constant is not a string, has no comment, or is in a block without a comment.
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
			value := spec.(*ast.ValueSpec) //nolint:forcetypeassert // a declaration of constants has only these
			name := value.Names[0].Name
			if !isStatus.MatchString(name) {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if !ok || value.Doc == nil || g.title == "" {
				return nil, fmt.Errorf(
					"%s: it must be a string with a comment that explains when it occurs, in a block with a comment",
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

// unwrapped returns a comment as a single line.
func unwrapped(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// inWords replaces the names of constants in a comment with their values. It puts the parameter quote before and
// after each value.
func inWords(comment string, values map[string]string, quote string) string {
	return regexp.MustCompile(`\w+`).ReplaceAllStringFunc(comment, func(word string) string {
		if value := values[word]; value != "" {
			return quote + value + quote
		}
		return word
	})
}
