package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// View is the part of a page that a terminal shows.
type View struct {
	// Width and Height are the size of the terminal, in columns and rows.
	Width, Height int
	// Offset is the number of lines of the body that are scrolled out at the top.
	Offset int
}

// Source returns the page for a view at the time now.
type Source func(v View, now time.Time) Page

// Page has the lines of a screen. The head and the foot stay in place, and the body scrolls between them.
type Page struct {
	head, body []string
	// rest follows the body. It repeats parts of the body in full, so Print omits it.
	rest []string
	// foot is the last line. next is the command that the user should run next, or empty. Draw puts the command at the
	// right end of the last line.
	foot, next string
}

// MaxOffset returns how many lines of the page can be scrolled out of a view.
func (p Page) MaxOffset(v View) int { return max(len(p.body)+len(p.rest)-p.room(v), 0) }

// room returns how many lines a view has room for between the head and the foot.
func (p Page) room(v View) int { return max(v.Height-len(p.head)-1, 0) }

// Draw returns the part of the page that a view shows. It has at most as many lines as the view has rows, and no line
// is wider than the view.
func (p Page) Draw(v View) string {
	all := slices.Concat(p.body, p.rest)
	above := min(max(v.Offset, 0), p.MaxOffset(v))
	below := min(above+p.room(v), len(all))
	lines := slices.Concat(p.head, all[above:below])
	if v.Height > len(p.head) {
		for len(lines) < v.Height-1 {
			lines = append(lines, "")
		}
		right := p.next
		if below-above < len(all) {
			place := quiet.Render(fmt.Sprintf("lines %d-%d of %d", above+1, below, len(all)))
			if right += "  " + place; p.next == "" || width(p.foot)+2+width(right) > v.Width {
				right = place
			}
		}
		lines = append(lines, spread(p.foot, right, v.Width))
	}
	lines = lines[:min(len(lines), max(v.Height, 0))]
	for i, line := range lines {
		lines[i] = fit(line, v.Width)
	}
	return strings.Join(lines, "\n")
}

// Print returns the page for output that is not redrawn and cannot scroll: the head and the body, without the foot.
func (p Page) Print(columns int) string {
	var b strings.Builder
	for _, line := range slices.Concat(p.head, p.body) {
		b.WriteString(fit(line, columns) + "\n")
	}
	return b.String()
}
