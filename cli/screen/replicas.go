package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

const (
	// foldFrom is the maximum number of replicas in a table of all replicas. If a job has more, a grid shows all of
	// them, and the table shows only those with a problem.
	foldFrom = 8
	// gridRows is the maximum number of rows of the grid of one type. If more are needed, each mark stands for several
	// replicas.
	gridRows = 8
)

// bySeverity compares two replicas by the severity of their phases.
func bySeverity(a, b replica) int { return cmp.Compare(rankOf(a.Phase), rankOf(b.Phase)) }

// isQuiet reports whether a replica needs no attention.
func isQuiet(r replica) bool {
	return !r.Ending && (r.Phase == batchv1beta1.ReplicaPhaseRunning || r.Phase == batchv1beta1.ReplicaPhaseSucceeded)
}

// replicaTable returns a table of replicas. If there are at most foldFrom replicas, it has all of them. Otherwise, it
// has those with a problem, the most severe first. If these need more than the given number of rows, the last row has
// the number of the replicas that are left out.
func replicaTable(replicas []replica, columns, most int) []string {
	if len(replicas) == 0 {
		return nil
	}
	if len(replicas) <= foldFrom {
		return rows(replicas, columns)
	}
	shown := slices.DeleteFunc(slices.SortedStableFunc(slices.Values(replicas), bySeverity), isQuiet)
	if len(shown) == 0 {
		return nil
	}
	if len(shown) <= most {
		return rows(shown, columns)
	}
	return append(rows(shown[:most-1], columns),
		quiet.Render(fmt.Sprintf("and %d more, see below", len(shown)-most+1)))
}

// rows returns the table of some replicas, with a header.
func rows(shown []replica, columns int) []string {
	cells := [][]string{{"REPLICA", "STATE", "NODE", "RESTARTS", ""}}
	hasDetail := false
	for _, r := range shown {
		cells = append(cells, []string{
			printable.Line(r.Name), lookOfReplica(r.Phase).of(stateOf(r)), cmp.Or(printable.Line(r.Node), "-"),
			strconv.Itoa(int(r.Restarts)), printable.Line(r.Detail),
		})
		hasDetail = hasDetail || r.Detail != ""
	}
	if hasDetail {
		cells[0][4] = "DETAIL"
	}
	return table(cells, columns)
}

// stateOf returns the phase of a replica as a word, or Ending if its pod is being deleted.
func stateOf(r replica) string {
	if r.Ending {
		return "Ending"
	}
	return printable.Line(string(r.Phase))
}

// table returns the rows of cells as aligned lines. The first row is the header. Cells are cut so that each column
// but the last has at most two fifths of the width.
func table(cells [][]string, columns int) []string {
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, cell := range row {
			widths[i] = min(max(widths[i], width(cell)), max(columns*2/5, 4))
		}
	}
	lines := make([]string, 0, len(cells))
	for n, row := range cells {
		var b strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
			} else {
				b.WriteString(pad(fit(cell, widths[i]), widths[i]) + "  ")
			}
		}
		line := fit(strings.TrimRight(b.String(), " "), columns)
		if n == 0 {
			line = quiet.Render(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// grid returns lines with a mark for each replica. Each type begins on a new line. A line has the index of its first
// replica, and marks in groups of ten. If a type would need more than gridRows lines, each mark stands for several
// replicas and shows the most severe phase among them.
func grid(replicas []replica, columns int) []string {
	labels := 0
	var types [][]replica
	for i, r := range replicas {
		if i == 0 || r.Type != replicas[i-1].Type {
			types = append(types, nil)
			labels = max(labels, width(printable.Line(r.Type)))
		}
		types[len(types)-1] = append(types[len(types)-1], r)
	}
	labels = min(labels, columns/3)
	var lines []string
	for _, of := range types {
		digits := len(strconv.Itoa(len(of)))
		groups := max((columns-labels-digits-2)/11, 1)
		perLine, each := groups*10, 1
		for (len(of)+each-1)/each > perLine*gridRows {
			each++
		}
		label := printable.Line(of[0].Type)
		for from := 0; from < len(of); from += perLine * each {
			line := pad(fit(label, labels), labels) + quiet.Render(fmt.Sprintf(" %*d ", digits, from))
			line += marks(of[from:min(from+perLine*each, len(of))], each)
			lines, label = append(lines, line), ""
		}
		if each > 1 {
			lines = append(lines, quiet.Render(fmt.Sprintf("each mark is %d replicas", each)))
		}
	}
	return lines
}

// marks returns the marks of replicas, in groups of ten.
func marks(replicas []replica, each int) string {
	var b strings.Builder
	// Neighbors of the same phase share a style, so that a line of 200 marks has few escape sequences.
	var run strings.Builder
	var phase batchv1beta1.ReplicaPhase
	flush := func() {
		if run.Len() > 0 {
			style := lookOfReplica(phase).style
			if phase == batchv1beta1.ReplicaPhaseRunning { // a quiet style, so that the marks of all other phases stand out
				style = quiet
			}
			b.WriteString(style.Render(run.String()))
			run.Reset()
		}
	}
	n := 0
	for chunk := range slices.Chunk(replicas, each) {
		worst := slices.MinFunc(chunk, bySeverity)
		if worst.Phase != phase {
			flush()
			phase = worst.Phase
		}
		if n > 0 && n%10 == 0 {
			run.WriteByte(' ')
		}
		run.WriteString(lookOfReplica(phase).mark)
		n++
	}
	flush()
	return b.String()
}
