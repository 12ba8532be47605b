package train

import (
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/cli/screen/stories"
)

var update = flag.Bool("update", false, "write the pictures in docs/train/images")

// TestPicturesShowTheScreens compares the pictures in the documents with the screens.
func TestPicturesShowTheScreens(t *testing.T) {
	t.Parallel()
	narrow, wide := screen.View{Width: 80, Height: 24}, screen.View{Width: 160, Height: 32}
	pictures := map[string]string{"jobs": picture(screen.Table(stories.Jobs(), narrow, stories.Now).Draw(narrow), narrow)}
	for _, story := range stories.All() {
		size := narrow
		switch story.Name {
		case "large":
			size = wide
		case "running", "image-pull", "queued", "stalled", "failed":
		default:
			continue
		}
		pictures[story.Name] = picture(screen.Job(story.Snapshot, size, stories.Now).Draw(size), size)
	}
	for name, got := range pictures {
		path := filepath.Join("../../docs/train/images", "kubectl-train-watch-"+name+".svg")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s does not show the screen, use -update to change it (-want +got):\n%s", path, diff)
		}
	}
}

// The size of a cell and the margin of a picture, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 19
	margin     = 14
)

// style has the colors of a picture, in the light and in the dark theme of the reader.
const style = `<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; white-space: pre }
rect { fill: #f6f8fa; stroke: #d1d9e0 } text { fill: #1f2328 } .faint { fill: #59636e } .bold { font-weight: bold }
.red { fill: #cf222e } .green { fill: #1a7f37 } .yellow { fill: #9a6700 } .gray { fill: #c8d1da }
@media (prefers-color-scheme: dark) {
rect { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .faint { fill: #9198a1 }
.red { fill: #f85149 } .green { fill: #3fb950 } .yellow { fill: #d29922 } .gray { fill: #3d444d }
}
</style>
`

// picture returns a screen as an SVG image. Each sequence of cells with the same style is a text element that begins
// at the position of its first cell, so that the columns are aligned in any font.
func picture(drawn string, size screen.View) string {
	cells := uv.NewScreenBuffer(size.Width, size.Height)
	uv.NewStyledString(drawn).Draw(cells, cells.Bounds())
	var b strings.Builder
	width, height := float64(size.Width)*cellWidth+2*margin, size.Height*cellHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `%s<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="8"/>`+"\n", style, width-1, height-1)
	for y := range size.Height {
		for x := 0; x < size.Width; {
			first, text, start := cells.CellAt(x, y), "", x
			for x < size.Width && classOf(cells.CellAt(x, y)) == classOf(first) {
				text += cells.CellAt(x, y).Content
				x += max(cells.CellAt(x, y).Width, 1)
			}
			text = strings.TrimRight(text, " ")
			trimmed := strings.TrimLeft(text, " ")
			if trimmed == "" {
				continue
			}
			start += len(text) - len(trimmed)
			var escaped strings.Builder
			_ = xml.EscapeText(&escaped, []byte(trimmed))
			fmt.Fprintf(&b, `<text class="%s" x="%.1f" y="%d" textLength="%.1f">%s</text>`+"\n",
				classOf(first), margin+float64(start)*cellWidth, margin+y*cellHeight+14,
				float64(ansi.StringWidth(trimmed))*cellWidth, escaped.String())
		}
	}
	return b.String() + "</svg>\n"
}

// classOf returns the CSS classes of a cell.
func classOf(cell *uv.Cell) string {
	var classes []string
	switch cell.Style.Fg {
	case ansi.Red:
		classes = append(classes, "red")
	case ansi.Green:
		classes = append(classes, "green")
	case ansi.Yellow:
		classes = append(classes, "yellow")
	case ansi.BrightBlack:
		classes = append(classes, "gray")
	}
	if cell.Style.Attrs&uv.AttrBold != 0 {
		classes = append(classes, "bold")
	}
	if cell.Style.Attrs&uv.AttrFaint != 0 {
		classes = append(classes, "faint")
	}
	return strings.Join(classes, " ")
}
