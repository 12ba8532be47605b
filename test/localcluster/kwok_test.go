package localcluster

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestStages(t *testing.T) {
	names := map[string]bool{}
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stages), 4096)
	for {
		var stage struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
			Spec             struct {
				ResourceRef struct{ Kind string }
				Next        map[string]any
			}
		}
		if err := docs.Decode(&stage); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if stage.APIVersion != "kwok.x-k8s.io/v1alpha1" || stage.Kind != "Stage" || len(stage.Spec.Next) == 0 {
			t.Errorf("not a stage: %+v", stage)
		}
		if !strings.HasPrefix(stage.Metadata.Name, strings.ToLower(stage.Spec.ResourceRef.Kind)+"-") {
			t.Errorf("the name of stage %s does not begin with its kind %s", stage.Metadata.Name, stage.Spec.ResourceRef.Kind)
		}
		names[stage.Metadata.Name] = true
	}
	for _, want := range []string{"node-initialize", "node-heartbeat", "pod-run", "pod-end", "pod-delete"} {
		if !names[want] {
			t.Errorf("stage %s is missing in %v", want, names)
		}
	}
	for _, annotation := range []string{AnnotationRunSeconds, AnnotationExitCode} {
		if !bytes.Contains(stages, []byte(annotation)) {
			t.Errorf("no stage reads %s", annotation)
		}
	}
}

func TestAddressesOfSimulatedNodesDoNotOverlap(t *testing.T) {
	var last netip.Prefix
	for i := range 2000 {
		prefix, err := netip.ParsePrefix(SimulatedNode(i).Spec.PodCIDR)
		if err != nil {
			t.Fatal(err)
		}
		if prefix != prefix.Masked() || (i > 0 && (prefix.Overlaps(last) || prefix.Addr().Less(last.Addr()))) {
			t.Fatalf("node %d has the addresses %s, and the node before it has %s", i, prefix, last)
		}
		last = prefix
	}
}
