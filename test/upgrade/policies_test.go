package upgrade

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// TestPoliciesRejectNoPodsWhileTheSchedulerIsInstalledOrRemoved installs and removes two parts in several orders: the
// CRDs, and the controller with the policies. After each step, a tenant can create and change pods of a PodGroup. The
// test skips versions of Kubernetes before 1.36: the policies for these versions do not read PodGroups.
func TestPoliciesRejectNoPodsWhileTheSchedulerIsInstalledOrRemoved(t *testing.T) {
	t.Parallel()
	type step struct{ command, part string }
	for name, steps := range map[string][]step{
		"the CRDs are installed first and removed last": {
			{"apply", "crd"}, {"apply", "native/controller"}, {"delete", "native/controller"}, {"delete", "crd"},
		},
		"the CRDs are installed last and removed first": {
			{"apply", "native/controller"}, {"apply", "crd"}, {"delete", "crd"}, {"delete", "native/controller"},
		},
		"the CRDs are removed and installed again": {
			{"apply", "crd"}, {"apply", "native/controller"}, {"delete", "crd"}, {"apply", "crd"},
		},
		"one engine is replaced by the other": {
			{"apply", "crd"}, {"apply", "native/controller"}, {"apply", "volcano/controller"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startAPIServer(t)
			if version, served := s.mutatingAdmissionPolicies(t); !served {
				t.Skipf("Kubernetes %s has no MutatingAdmissionPolicy in admissionregistration.k8s.io/v1", version)
			}
			tenant := s.tenant(t)
			for _, step := range steps {
				// No namespace controller runs here, so the deletion of the controller's namespace never ends, and kubectl must
				// not wait.
				wait := "--wait=" + strconv.FormatBool(step.part == "crd")
				s.kubectl(t, step.command, "-k", "../../deploy/scheduler/"+step.part, wait)
				if step.part != "crd" {
					awaitGate(t, tenant, step.command == "apply")
				}
				pod := podOfGroup()
				if err := tenant.Create(t.Context(), pod); err != nil {
					t.Errorf("after kubectl %s -k %s: %v", step.command, step.part, err)
					continue
				}
				before := pod.DeepCopy()
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "note", "mine")
				if err := tenant.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
					t.Errorf("after kubectl %s -k %s: %v", step.command, step.part, err)
				}
			}
		})
	}
}

// tenant creates the namespace team, and returns the client of a user. In this namespace, the user has the
// permissions of the ClusterRole edit for pods.
func (s *apiServer) tenant(t *testing.T) client.Client {
	t.Helper()
	s.kubectl(t, "create", "namespace", "team")
	s.kubectl(t, "create", "rolebinding", "tenant", "--namespace=team",
		"--clusterrole=system:aggregate-to-edit", "--user=tenant")
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "tenant"}
	tenant, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

// podOfGroup returns a pod of a PodGroup as a tenant writes it.
func podOfGroup() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", GenerateName: "pod-",
			Labels: map[string]string{schedulerv1beta1.LabelGroupName: "group"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}

// awaitGate waits until new pods of a PodGroup get a scheduling gate. If the parameter want is false, it waits until
// new pods get none.
func awaitGate(t *testing.T, tenant client.Client, want bool) {
	t.Helper()
	var lastErr error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			pod := podOfGroup()
			err := tenant.Create(ctx, pod, client.DryRunAll)
			if ctx.Err() == nil {
				lastErr = err
			}
			return err == nil && (len(pod.Spec.SchedulingGates) > 0) == want, nil
		})
	if err != nil {
		t.Fatalf("waiting for the policies (want a gate: %v): %v, last error: %v", want, err, lastErr)
	}
}
