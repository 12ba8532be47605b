package style

import (
	"fmt"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLine is the maximum length of a line of Go, in characters.
const maxLine = 120

// marker begins a comment for controller-gen. Such a comment must be on one line, which can be longer than maxLine.
const marker = "// +"

func TestLinesOfGoAreShort(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for file, content := range files(t, "*.go") {
		exempt := linesOfRawStrings(content)
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			length := utf8.RuneCountInString(strings.TrimRight(line, "\n"))
			if length <= maxLine || exempt[number] || strings.HasPrefix(strings.TrimSpace(line), marker) {
				continue
			}
			found[file] = append(found[file], fmt.Sprintf("%d: %d characters, and %d are allowed", number, length, maxLine))
		}
	}
	checkNone(t, found)
}

// linesOfRawStrings returns the numbers of the lines of raw strings. They can be long: a line break would change the
// string.
func linesOfRawStrings(source []byte) map[int]bool {
	lines := map[int]bool{}
	for _, literal := range tokens(source, token.STRING) {
		if !strings.HasPrefix(literal.text, "`") {
			continue
		}
		for i := range 1 + strings.Count(literal.text, "\n") {
			lines[literal.line+i] = true
		}
	}
	return lines
}

// goToken is a token of a Go file.
type goToken struct {
	text string
	// line is the line on which the token begins, from 1.
	line int
}

// tokens returns the tokens of some kinds in Go source, in their order.
func tokens(source []byte, kinds ...token.Token) []goToken {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var found []goToken
	for {
		position, tok, text := s.Scan()
		if tok == token.EOF {
			return found
		}
		if slices.Contains(kinds, tok) {
			found = append(found, goToken{text: text, line: file.Line(position)})
		}
	}
}
