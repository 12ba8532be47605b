package printable

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// Stream makes the output of a program printable for a terminal, piece by piece while the output arrives. Text does
// this for a whole text. If a line rewrites itself, such as a progress bar, the Stream erases the line on the
// terminal and writes it again.
type Stream struct {
	// Stamped reports whether each line begins with a time, which stays when the line rewrites itself.
	Stamped bool

	// rest is the beginning of a character whose other bytes have not arrived yet.
	rest []byte
	line streamLine
}

// streamLine is the state of the last line of a stream.
type streamLine struct {
	// sequence is the state of the parser of escape sequences.
	sequence parser.State
	// isShown reports whether the terminal shows text of the line. If isOver is true, the next text replaces the line.
	isShown, isOver bool
	// stamp is the time at the beginning of the line, with the space after it.
	stamp []byte
}

// erase is the escape sequence that erases the line of the cursor.
const erase = "\r\x1b[K"

// Printable returns the bytes to write to the terminal for the next piece of the output.
func (s *Stream) Printable(piece []byte) []byte {
	var out []byte
	begin := 0 // where the last line begins in out
	piece = slices.Concat(s.rest, piece)
	for utf8.FullRune(piece) {
		r, size := utf8.DecodeRune(piece)
		piece = piece[size:]
		switch r {
		case '\n':
			out = append(out, '\n')
			begin, s.line = len(out), streamLine{}
		case '\r':
			s.line.isOver, s.line.sequence = true, parser.GroundState
		default:
			if !s.line.isText(r) {
				continue
			}
			if s.line.isOver {
				out = out[:begin]
				if s.line.isShown {
					out = append(out, erase...)
				}
				out = append(out, s.line.stamp...)
				s.line.isOver = false
			}
			if r == '\t' {
				out = append(out, "    "...)
				continue
			}
			out = utf8.AppendRune(out, r)
			if s.Stamped && !bytes.HasSuffix(s.line.stamp, []byte(" ")) {
				s.line.stamp = utf8.AppendRune(s.line.stamp, r)
			}
		}
	}
	s.rest = piece
	s.line.isShown = s.line.isShown || len(out) > begin
	return out
}

// isText reports whether the next character of the line is text: a tab or a character that can be printed, outside
// escape sequences.
func (l *streamLine) isText(r rune) bool {
	state, action := parser.Table.Transition(l.sequence, string(r)[0])
	if state == parser.Utf8State {
		state, action = parser.GroundState, parser.PrintAction
	}
	l.sequence = state
	return r == '\t' && action == parser.ExecuteAction || action == parser.PrintAction && visible(r) >= 0
}
