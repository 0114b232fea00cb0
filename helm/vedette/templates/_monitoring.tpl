{{/* One endpoint of a monitor: (list monitor port-name). */}}
{{- define "vedette.endpoint" -}}
{{- $monitor := index . 0 -}}
- port: {{ index . 1 }}
  path: /metrics
  interval: {{ $monitor.interval }}
  {{- with $monitor.metricRelabelings }}
  metricRelabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $monitor.relabelings }}
  relabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Metadata of an object that an operator selects by labels: (list root component name labels). */}}
{{- define "vedette.selected" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
labels: {{- merge (deepCopy (index . 3)) (include "vedette.labels" (list $root (index . 1)) | fromYaml) | toYaml | nindent 2 }}
{{- end }}
