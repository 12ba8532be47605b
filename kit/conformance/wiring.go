package conformance

import (
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/model"
)

// testWiring checks the properties of a framework that the job controller relies on. It also checks that the
// framework respects the templates of users: the variables of the user override those of the framework, and sidecars
// stay unchanged.
func testWiring[J framework.Job](t *testing.T, f framework.Framework[J], newJob func(Shape) J) {
	t.Helper()
	w := wiring[J]{framework: f, newJob: newJob}
	t.Run("the framework returns the policies and the status of the job", w.testViews)
	t.Run("wiring a member is deterministic and does not change the job", w.testPurity)
	t.Run("the user's variables come after the framework's variables and override them", w.testEnv)
	t.Run("wiring does not change sidecars", w.testSidecars)
}

type wiring[J framework.Job] struct {
	framework framework.Framework[J]
	newJob    func(Shape) J
}

func (w wiring[J]) template(containers ...corev1.Container) corev1.PodTemplateSpec {
	main := corev1.Container{Name: w.framework.MainContainers()[0], Image: "training", Command: []string{"train"}}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: append(containers, main)}}
}

func (w wiring[J]) job(template corev1.PodTemplateSpec) J {
	job := w.newJob(Shape{
		Replicas: 3, RestartPolicy: onFailure, Template: template,
		RunPolicy: batchv1beta1.RunPolicy{BackoffLimit: new(int32(7)), RestartScope: scopeReplica},
	})
	job.SetNamespace(model.JobKey.Namespace)
	job.SetName(model.JobKey.Name)
	job.SetUID("uid")
	return job
}

// wire returns the wired template of each member.
func (w wiring[J]) wire(t *testing.T, job J) []corev1.PodTemplateSpec {
	t.Helper()
	peers := framework.NewPeers(model.JobKey.Namespace, model.JobKey.Name, job.GetUID(), "cluster.local", 0,
		w.framework.JobSpec(job).Roles)
	var wired []corev1.PodTemplateSpec
	for _, member := range peers.Members {
		template := member.Role.Template.DeepCopy()
		if err := w.framework.Wire(job, peers, member, template); err != nil {
			t.Fatalf("wiring %s: %v", member.Name, err)
		}
		wired = append(wired, *template)
	}
	return wired
}

func (w wiring[J]) main(template corev1.PodTemplateSpec) *corev1.Container {
	return framework.MainContainer(w.framework.MainContainers(), template.Spec.Containers)
}

func (w wiring[J]) testViews(t *testing.T) {
	job := w.job(w.template())
	spec := w.framework.JobSpec(job)
	if len(spec.Roles) != 1 || spec.Roles[0].Replicas != 3 || spec.Roles[0].RestartPolicy != onFailure {
		t.Errorf("the roles are %+v, want one with 3 replicas and the restart policy OnFailure", spec.Roles)
	}
	if spec.RunPolicy.BackoffLimit == nil || *spec.RunPolicy.BackoffLimit != 7 ||
		spec.RunPolicy.RestartScope != scopeReplica {
		t.Errorf("the run policy is %+v, want backoffLimit 7 and restartScope Replica", spec.RunPolicy)
	}
	if spec.DefaultRestartScope == "" {
		t.Error("the job has no default restart scope")
	}
	job.JobStatus().BackoffCount = 5
	copied := job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is one
	copied.JobStatus().BackoffCount = 6
	if job.JobStatus().BackoffCount != 5 || copied.JobStatus().BackoffCount != 6 {
		t.Error("JobStatus does not return the status of the job itself")
	}
}

func (w wiring[J]) testPurity(t *testing.T) {
	job := w.job(w.template())
	before := job.DeepCopyObject()
	first, second := w.wire(t, job), w.wire(t, job)
	if diff := gocmp.Diff(first, second); diff != "" {
		t.Errorf("wiring twice gives different templates (-first +second):\n%s", diff)
	}
	if diff := gocmp.Diff(before, job.DeepCopyObject()); diff != "" {
		t.Errorf("wiring changes the job (-before +after):\n%s", diff)
	}
}

func (w wiring[J]) testEnv(t *testing.T) {
	for i, wired := range w.wire(t, w.job(w.template())) {
		ours := w.main(wired).Env
		template := w.template()
		w.main(template).Env = []corev1.EnvVar{{Name: "MINE", Value: "mine"}}
		env := w.main(w.wire(t, w.job(template))[i]).Env
		if want := append(slices.Clone(ours), w.main(template).Env...); !slices.Equal(names(env), names(want)) {
			t.Errorf("the environment is %q, want the variables of the framework first: %q", names(env), names(want))
		}
		for _, variable := range ours {
			w.main(template).Env = []corev1.EnvVar{{Name: variable.Name, Value: "mine"}}
			env := w.main(w.wire(t, w.job(template))[i]).Env
			isIt := func(e corev1.EnvVar) bool { return e.Name == variable.Name }
			at := slices.IndexFunc(env, isIt)
			if at < 0 || env[at].Value != "mine" || slices.ContainsFunc(env[at+1:], isIt) {
				t.Errorf("the user's value of %s does not override the value of the framework: %+v", variable.Name, env)
			}
		}
	}
}

func names(env []corev1.EnvVar) []string {
	var list []string
	for _, e := range env {
		list = append(list, e.Name)
	}
	return list
}

func (w wiring[J]) testSidecars(t *testing.T) {
	sidecar := corev1.Container{Name: "sidecar", Image: "proxy", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}
	for _, wired := range w.wire(t, w.job(w.template(sidecar))) {
		at := slices.IndexFunc(wired.Spec.Containers, func(c corev1.Container) bool { return c.Name == "sidecar" })
		if at < 0 {
			t.Fatal("wiring removes the sidecar")
		}
		if diff := gocmp.Diff(sidecar, wired.Spec.Containers[at]); diff != "" {
			t.Errorf("wiring changes the sidecar (-want +got):\n%s", diff)
		}
	}
}
