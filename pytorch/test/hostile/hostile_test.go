// Package hostile_test asks a real API server about thousands of odd jobs. It keeps the processors busy, so that it has a
// package of its own, which runs beside others.
package hostile_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/frameworktest/controlplane"
	"tensorstack.dev/jobs/common/frameworktest/hostile"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

var (
	jobs = flag.Int("jobs", 10_000, "how many jobs to ask about")
	seed = flag.Uint64("seed", rand.Uint64(), "what the jobs are drawn from")
)

func TestTheAPIServerTakesWhatTheControllerMakesOfWhatTheCRDAdmits(t *testing.T) {
	controller := pytorch.Controller()
	plane, err := controlplane.Start(t.Context(), "../../config", "t9k-pytorch", controller.Name, controller.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // there are many
	server, err := client.New(config, client.Options{Scheme: plane.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	crd, err := hostile.ReadCRD("../../config/crd/batch.tensorstack.dev_pytorchtrainingjobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := hostile.Manifests(v1beta1.Kind, "../../../examples/pytorch/*.yaml", "../../testdata/hostile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	survey := hostile.Survey[*v1beta1.PyTorchTrainingJob]{
		Controller: controller, CRD: crd, Manifests: manifests, Server: server, Namespace: "default", Jobs: *jobs, Seed: *seed,
	}
	t.Log(survey.Ask(t))
}
