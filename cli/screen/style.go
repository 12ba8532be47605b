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

// lookOfReplica returns how the phase of a replica looks.
func lookOfReplica(phase batchv1beta1.ReplicaPhase) look {
	switch phase {
	case batchv1beta1.ReplicaPhaseRunning:
		return look{"●", good}
	case batchv1beta1.ReplicaPhaseSucceeded:
		return look{"✓", good}
	case batchv1beta1.ReplicaPhaseFailed:
		return look{"✗", bad}
	case batchv1beta1.ReplicaPhasePending:
		return look{"○", waits}
	case batchv1beta1.ReplicaPhaseCreating:
		return look{"·", waits}
	case batchv1beta1.ReplicaPhaseDeleted:
		return look{"-", quiet}
	default:
		return look{"?", waits}
	}
}

// severity orders the phases of replicas: the most severe first.
var severity = []batchv1beta1.ReplicaPhase{
	batchv1beta1.ReplicaPhaseFailed, batchv1beta1.ReplicaPhaseUnknown, batchv1beta1.ReplicaPhasePending,
	batchv1beta1.ReplicaPhaseCreating, batchv1beta1.ReplicaPhaseDeleted, batchv1beta1.ReplicaPhaseRunning,
	batchv1beta1.ReplicaPhaseSucceeded,
}
