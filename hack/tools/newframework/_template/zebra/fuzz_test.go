package zebra

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/hostile"
	"tensorstack.dev/jobs/zebra/api/v1beta1"
)

// crdFile is the CRD of the kind.
const crdFile = "config/crd/batch.tensorstack.dev_zebratrainingjobs.yaml"

// FuzzSpec looks for jobs that the CRD accepts and that the controller does not handle correctly.
func FuzzSpec(f *testing.F) {
	manifests, err := hostile.Manifests(v1beta1.Kind, "testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	hostile.Fuzz(f, Controller(), crdFile, manifests, checkRanks)
}

func TestLimitsBoundTheMemoryThatAJobUses(t *testing.T) {
	hostile.CheckSize(t, Controller(), crdFile)
}

// checkRanks checks that each replica has a different rank in its environment. It skips the replicas whose template
// sets the variable of the rank.
func checkRanks(begun hostile.Begun[*v1beta1.ZebraTrainingJob]) error {
	named := func(e corev1.EnvVar) bool { return e.Name == envRank }
	own := map[string]bool{}
	for _, role := range begun.Spec.Roles {
		own[role.Type] = slices.ContainsFunc(mainContainer(role.Template.Spec).Env, named)
	}
	var errs []error
	taken := map[int]string{}
	for _, pod := range begun.Pods {
		if own[pod.Labels[batchv1beta1.LabelReplicaType]] {
			continue
		}
		env := mainContainer(pod.Spec).Env
		i := slices.IndexFunc(env, named)
		if i < 0 {
			errs = append(errs, fmt.Errorf("pod %s has no %s", pod.Name, envRank))
			continue
		}
		rank, err := strconv.Atoi(env[i].Value)
		if other := taken[rank]; err != nil || rank < 0 || rank >= len(begun.Pods) || other != "" {
			errs = append(errs, fmt.Errorf("pod %s has the rank %q, which is invalid or also the rank of %q",
				pod.Name, env[i].Value, other))
		}
		taken[rank] = pod.Name
	}
	return errors.Join(errs...)
}

func mainContainer(spec corev1.PodSpec) *corev1.Container {
	return framework.MainContainer(zebra{}.MainContainers(), spec.Containers)
}
