package sidecar

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTheConfigurationOfTheProjectorNamesFiles(t *testing.T) {
	tests := map[string]struct {
		file, config string
		want         map[string]bool
	}{
		"paths are relative to the configuration": {
			file: "train/projector_config.pbtxt",
			config: `embeddings {
  tensor_name: "words"
  tensor_path: "./assets/vectors.bytes"
  metadata_path: "labels.tsv"
  bookmarks_path: "../views.txt"
  sprite { image_path: "images/all.jpg" single_image_dim: 28 }
}`,
			want: map[string]bool{
				"train/assets/vectors.bytes": true, "train/labels.tsv": true, "views.txt": true, "train/images/all.jpg": true,
			},
		},
		"all embeddings name files": {
			file: "projector_config.pbtxt", config: `embeddings{tensor_path:"a.tsv"}embeddings{tensor_path:'b.tsv'}`,
			want: map[string]bool{"a.tsv": true, "b.tsv": true},
		},
		"escaped characters are decoded": {
			file: "projector_config.pbtxt", config: `embeddings { metadata_path: "\303\274ber.tsv" }`,
			want: map[string]bool{"über.tsv": true},
		},
		"checkpoints are not shown": {
			file:   "projector_config.pbtxt",
			config: `model_checkpoint_path: "model.ckpt-1" embeddings { tensor_name: "words" }`, want: map[string]bool{},
		},
		"only files with the name of a configuration are read": {
			file: "config.pbtxt", config: `embeddings { tensor_path: "a.tsv" }`, want: map[string]bool{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := projectorFiles(fstest.MapFS{tc.file: {Data: []byte(tc.config)}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected files (-want +got):\n%s", diff)
			}
		})
	}
}
