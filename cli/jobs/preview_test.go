package jobs

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestReleased(t *testing.T) {
	names := regexp.MustCompile(`^tensorstack/([a-z]+)-controller:v\d+\.\d+\.\d+ t9k-([a-z]+)$`)
	for _, kind := range Kinds {
		t.Run(kind.Kind, func(t *testing.T) {
			released, err := kind.Released()
			if err != nil {
				t.Fatal(err)
			}
			namespace := released.ProgressReader.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]
			found := names.FindStringSubmatch(released.Image + " " + namespace)
			if found == nil || found[1] != found[2] {
				t.Errorf("the image is %q in the namespace %q, want those of one controller", released.Image, namespace)
			}
		})
	}
}
