package integration

import (
	"context"
	"path/filepath"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/hostile"
	"tensorstack.dev/jobs/kit/model"
)

// AskAboutOddJobs sends a number of odd jobs to a real API server and checks the answers. See hostile.Survey. The
// first jobs come from the manifests that match the patterns, and the others are variants of them that are distorted
// according to the seed. With -short, AskAboutOddJobs sends at most 500 jobs. The test uses all processors. It must
// be in a package of its own, test/hostile in the module of the kind, so that it runs in parallel with other
// packages. The controller is installed in the namespace.
func AskAboutOddJobs[J framework.Job](
	t *testing.T, controller framework.Controller[J], namespace string, jobs int, seed uint64, manifests ...string,
) {
	t.Helper()
	folder := filepath.Join("..", config)
	plane, err := controlplane.Start(t.Context(), folder, namespace, controller.Name, controller.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, ok := any(controller.Framework.NewJob()).(framework.TensorBoardJob); ok {
		if err := plane.InstallCRDs(controlplane.TensorBoard); err != nil {
			t.Fatal(err)
		}
	}
	if err := admitGangs(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		jobs = min(jobs, 500)
	}
	survey := hostile.Survey[J]{Controller: controller, Namespace: "default", Jobs: jobs, Seed: seed}

	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // odd jobs cause many warnings
	if survey.Server, err = client.New(config, client.Options{Scheme: plane.Client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, crdFile))
	if err != nil || len(files) != 1 {
		t.Fatalf("the controller has the CRD manifests %q, want exactly one: %v", files, err)
	}
	if survey.CRD, err = hostile.ReadCRD(files[0]); err != nil {
		t.Fatal(err)
	}
	kind, err := plane.Client.GroupVersionKindFor(controller.Framework.NewJob())
	if err != nil {
		t.Fatal(err)
	}
	if survey.Manifests, err = hostile.Manifests(kind.Kind, manifests...); err != nil {
		t.Fatal(err)
	}
	t.Log(survey.Ask(t))
}

// admitGangs installs the PodGroup CRD and creates the priority class that pods of a gang need.
func admitGangs(ctx context.Context, plane *controlplane.ControlPlane) error {
	if err := plane.InstallCRDs(controlplane.Scheduler); err != nil {
		return err
	}
	return plane.Client.Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: model.PriorityClassName},
	})
}
