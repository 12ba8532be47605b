// Package stories has snapshots of jobs in typical situations. Tests draw them, and the pictures of the documents show
// them. The statuses and messages are those that the job controllers write.
package stories

import (
	"time"

	"tensorstack.dev/jobs/cli/screen"
)

// Now is the time at which the stories are drawn.
var Now = time.Date(2026, time.November, 26, 17, 24, 5, 0, time.UTC)

// Story is a job in a typical situation.
type Story struct {
	// Name identifies the story. The names of its golden files and pictures begin with it.
	Name string
	// Snapshot is the snapshot of the job.
	Snapshot screen.Snapshot
}

// All returns all stories.
func All() []Story {
	return []Story{
		{"new", created()},
		{"image-pull", imagePull()},
		{"queued", queued()},
		{"running", running()},
		{"types", types()},
		{"stalled", stalled()},
		{"restarting", restarting()},
		{"failed", failed()},
		{"succeeded", succeeded()},
		{"paused", paused()},
		{"large", large()},
		{"elastic", elastic()},
		{"ending", ending()},
		{"avoids", avoids()},
		{"disconnected", disconnected()},
		{"deleted", deleted()},
	}
}

// Jobs returns the jobs of some stories, as the jobs of one namespace.
func Jobs() screen.Jobs {
	all := screen.Jobs{Namespace: "vision"}
	for _, s := range []screen.Snapshot{
		running(), imagePull(), large(), stalled(), failed(), restarting(), queued(), succeeded(), paused(),
	} {
		all.Items = append(all.Items, s.Job)
	}
	return all
}
