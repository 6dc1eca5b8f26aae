"""Quality of the default model beside other classifiers, on public tables as they came."""
