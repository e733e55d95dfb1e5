"""Pages: a study, a trial or a tuning as one HTML file that needs neither network nor server.

The words and figures are those of ``report``; pictures are drawn in the browser by BokehJS, whose
scripts come from the wheel of bokeh and lie in the file.
"""
