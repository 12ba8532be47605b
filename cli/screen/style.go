package screen

import (
	"charm.land/lipgloss/v2"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// The styles use the 16 colors of the terminal, so that they suit its theme. A color only repeats the meaning of a
// word or a mark, so a reader can do without colors.
var (
	plain  = lipgloss.NewStyle()
	strong = lipgloss.NewStyle().Bold(true)
	quiet  = lipgloss.NewStyle().Faint(true)
	good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	waits  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// look is how a phase looks: a mark, and its style.
type look struct {
	mark  string
	style lipgloss.Style
}

// of returns the given text after the mark, both in the style of the phase.
func (l look) of(text string) string { return l.style.Render(l.mark + " " + text) }

// lookOfJob returns how the phase of a job looks.
func lookOfJob(phase batchv1beta1.JobPhase) look {
	switch phase {
	case batchv1beta1.JobPhaseRunning, batchv1beta1.JobPhaseSucceeded, batchv1beta1.JobPhaseFailed:
		return lookOfReplica(batchv1beta1.ReplicaPhase(phase))
	case batchv1beta1.JobPhasePaused:
		return look{"‖", plain}
	case batchv1beta1.JobPhaseUnknown:
		return look{"?", waits}
	default: // the job waits, or has no status yet
		return look{"○", waits}
	}
}

// looks has the look of each phase of replicas, the most severe phase first.
var looks = []struct {
	phase batchv1beta1.ReplicaPhase
	look  look
}{
	{batchv1beta1.ReplicaPhaseFailed, look{"✗", bad}},
	{batchv1beta1.ReplicaPhaseUnknown, look{"?", waits}},
	{batchv1beta1.ReplicaPhasePending, look{"○", waits}},
	{batchv1beta1.ReplicaPhaseCreating, look{"·", waits}},
	{batchv1beta1.ReplicaPhaseDeleted, look{"-", quiet}},
	{batchv1beta1.ReplicaPhaseRunning, look{"●", good}},
	{batchv1beta1.ReplicaPhaseSucceeded, look{"✓", good}},
}

// rankOf returns the position of a phase in looks. A phase that is not there, such as one of a newer controller, counts
// as Unknown.
func rankOf(phase batchv1beta1.ReplicaPhase) int {
	for rank, known := range looks {
		if known.phase == phase {
			return rank
		}
	}
	return rankOf(batchv1beta1.ReplicaPhaseUnknown)
}

// lookOfReplica returns how the phase of a replica looks.
func lookOfReplica(phase batchv1beta1.ReplicaPhase) look { return looks[rankOf(phase)].look }
