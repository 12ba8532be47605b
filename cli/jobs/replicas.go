package jobs

import (
	"fmt"
	"slices"
	"strings"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// Replica is a replica of a job.
type Replica struct {
	// Name of the replica and of its pod.
	Name string
	// Type of the replica.
	Type string
	// Rank is the number of the replica among all replicas, from 0. The leader has rank 0.
	Rank int32
	// MainContainer is the name of the container whose exit is the outcome of the replica.
	MainContainer string
}

// Replicas returns the replicas of the job in rank order. If the status of an elastic job records replicas, Replicas
// returns these, since scaling can leave gaps in their indices.
func (j Job) Replicas() []Replica {
	spec, status := j.Spec(), j.JobStatus()
	roles := slices.Clone(spec.Roles)
	isRecorded := slices.ContainsFunc(status.Tasks, func(t batchv1beta1.TaskStatus) bool { return len(t.Replicas) > 0 })
	if spec.Elastic != nil && isRecorded {
		for i := range roles {
			roles[i].Indices = policy.RecordedIndices(j.GetName(), roles[i].Type, status)
		}
	}
	peers := framework.NewPeers(j.GetNamespace(), j.GetName(), j.GetUID(), "", 0, roles)
	replicas := make([]Replica, 0, len(peers.Members))
	for _, member := range peers.Members {
		replica := Replica{Name: member.Name, Type: member.Role.Type, Rank: member.Rank}
		main := framework.MainContainer(j.Kind.MainContainers, member.Role.Template.Spec.Containers)
		if main != nil {
			replica.MainContainer = main.Name
		}
		replicas = append(replicas, replica)
	}
	return replicas
}

// ShortName returns the name of a replica without the name of the job, such as worker-1.
func (j Job) ShortName(replica string) string { return strings.TrimPrefix(replica, j.GetName()+"-") }

// Leader returns the leader of the job, or an error if the job has no replicas.
func (j Job) Leader() (Replica, error) { return j.ReplicaOfRank(0) }

// ReplicaOfRank returns the replica of a rank.
func (j Job) ReplicaOfRank(rank int32) (Replica, error) {
	replicas := j.Replicas()
	switch {
	case len(replicas) == 0:
		return Replica{}, fmt.Errorf("%s has no replicas", j.Ref())
	case rank < 0 || int(rank) >= len(replicas):
		problem := fmt.Sprintf("%s has no replica of rank %d: the ranks of its replicas are 0 to %d",
			j.Ref(), rank, len(replicas)-1)
		if note := j.RankNote(); note != "" {
			problem += ". " + note
		}
		return Replica{}, fmt.Errorf("%s", problem)
	}
	return replicas[rank], nil
}

// ReplicaNamed returns the replica with a name, such as digits-worker-1 or worker-1.
func (j Job) ReplicaNamed(name string) (Replica, error) {
	replicas := j.Replicas()
	i := slices.IndexFunc(replicas, func(r Replica) bool { return r.Name == name || j.ShortName(r.Name) == name })
	if i >= 0 {
		return replicas[i], nil
	}
	switch len(replicas) {
	case 0:
		return Replica{}, fmt.Errorf("%s has no replicas", j.Ref())
	case 1:
		return Replica{}, fmt.Errorf("%s has no replica %q: its only replica is %s",
			j.Ref(), name, j.ShortName(replicas[0].Name))
	}
	return Replica{}, fmt.Errorf("%s has no replica %q: its %d replicas are %s to %s",
		j.Ref(), name, len(replicas), j.ShortName(replicas[0].Name), j.ShortName(replicas[len(replicas)-1].Name))
}

// RankNote explains how the ranks of processes relate to the replicas of the job. The note is empty if each replica
// is one process with the rank of the replica, or if the framework does not number processes.
func (j Job) RankNote() string {
	if j.Spec().HasLauncher {
		return "Worker 0 launches the processes of all ranks, and its log has the output of all of them."
	}
	if j.RunsTorchrun() {
		return "Torchrun starts the processes of a replica and numbers them itself, and the log of a replica has the " +
			"output of all its processes."
	}
	return ""
}

// FirstProcessNote names the replica that runs the process of rank 0, if torchrun does not run this process in the
// leader. The note is empty for all other jobs, and for a job in which every replica can run the process.
func (j Job) FirstProcessNote() string {
	replicas := j.Replicas()
	if !j.RunsTorchrun() || j.Spec().FirstProcess != framework.FirstProcessByName || len(replicas) == 0 {
		return ""
	}
	// Torchrun numbers its processes by the sorted domain names of the pods. A domain name begins with the name of the
	// pod and a dot.
	first := slices.MinFunc(replicas, func(a, b Replica) int { return strings.Compare(a.Name+".", b.Name+".") })
	if first.Name == replicas[0].Name {
		return ""
	}
	return fmt.Sprintf("Torchrun numbers its processes by the names of the pods, so its rank 0 is not in the leader, but "+
		"in %s: kubectl train logs %s --replica=%s", first.Name, j.Typed(), j.ShortName(first.Name))
}

// RunsTorchrun reports whether the job is a PyTorchTrainingJob whose replicas run torchrun.
func (j Job) RunsTorchrun() bool {
	job, ok := j.Job.(*pytorchv1beta1.PyTorchTrainingJob)
	return ok && job.RunsTorchrun()
}

// LastFailure returns the last failure that the status records, or nil. This failure is the root cause of the end or
// of the last restart of the job.
func (j Job) LastFailure() *batchv1beta1.ReplicaFailure {
	if failures := j.JobStatus().Failures; len(failures) > 0 {
		return &failures[0]
	}
	return nil
}

// FailureOf returns the last recorded failure of a replica, or nil.
func (j Job) FailureOf(replica string) *batchv1beta1.ReplicaFailure {
	for _, failure := range j.JobStatus().Failures {
		if failure.Replica == replica {
			return &failure
		}
	}
	return nil
}

// Failed returns the replica whose log has the output of the last recorded failure. If the leader launches the
// processes of all replicas, this is the leader. If the job no longer has the replica, only its name is set.
func (j Job) Failed() (Replica, error) {
	failure := j.LastFailure()
	switch {
	case failure == nil:
		return Replica{}, fmt.Errorf("no replica of %s has failed", j.Ref())
	case j.Spec().HasLauncher:
		return j.Leader()
	}
	replica, err := j.ReplicaNamed(failure.Replica)
	if err != nil { // an elastic job has fewer replicas now
		replica.Name = failure.Replica
	}
	return replica, nil
}
